#include "grammar/tool_calls.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/strings.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/prune.h"
#include "grammar/schema_compiler.h"
#include "grammar/token_table.h"
#include "wire/limits.h"

namespace aril::grammar {
namespace {

constexpr const char* kTextSchema = "json_schema";

// With the bytes of special tokens in place of their marks.
std::string InBytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kSpecialTokenMark)) {
      bytes.push_back(static_cast<char>(kSpecialTokenByte));
      at += kSpecialTokenMark.size();
    } else {
      bytes.push_back(text[at++]);
    }
  }
  return bytes;
}

// Arguments are an object, also where a schema does not say so.
StatusOr<Json> OfObjects(const Json& parameters) {
  Json schema = parameters;
  if (schema.AsObject() == nullptr) {
    return InvalidArgument(StrCat("#: it must be an object, not ", schema.KindName()));
  }
  const Json* type = schema.Find("type");
  if (type == nullptr) {
    schema.AsObject()->emplace_back("type", "object");
  } else if (type->AsString() == nullptr || *type->AsString() != "object") {
    return InvalidArgument("#: `type` must be \"object\"");
  }
  return schema;
}

class SourceReader {
 public:
  static StatusOr<ToolCallFormat> Read(std::string_view source) {
    ASSIGN_OR_RETURN(const Json root,
                     Json::Parse(source, {.max_bytes = wire::kMaxOutputFormatBytes}));
    ToolCallFormat format;
    ASSIGN_OR_RETURN(format.syntax.begin, Text(root, "begin", 1));
    ASSIGN_OR_RETURN(format.syntax.middle, Text(root, "middle", 1));
    ASSIGN_OR_RETURN(format.syntax.end, Text(root, "end", 0));
    ASSIGN_OR_RETURN(format.syntax.marker, Text(root, "marker", 0));
    if (root.Find("next") != nullptr) {
      ASSIGN_OR_RETURN(format.syntax.next, Text(root, "next", 1));
    }
    if (!format.syntax.begin.starts_with(format.syntax.marker)) {
      return InvalidArgument("`begin` does not begin with `marker`");
    }
    if (IsToolNameByte(format.syntax.middle[0])) {
      return InvalidArgument("`middle` begins with what could belong to a name");
    }
    const Json* required = root.Find("required");
    if (required == nullptr || required->AsBool() == nullptr) return Wrong("required");
    format.is_required = *required->AsBool();
    if (const Json* schema = root.Find(kTextSchema)) {
      if (schema->AsString() == nullptr || format.syntax.marker.empty()) return Wrong(kTextSchema);
      format.text_schema = *schema->AsString();
    }
    RETURN_IF_ERROR(ReadTools(root, &format.tools));
    return format;
  }

 private:
  static Status Wrong(const char* name) {
    return InvalidArgument(StrCat("`", name, "` is missing, or not what it should be"));
  }

  static StatusOr<std::string> Text(const Json& root, const char* name, size_t min_bytes) {
    const Json* value = root.Find(name);
    const std::string* text = value == nullptr ? nullptr : value->AsString();
    if (text == nullptr || text->size() < min_bytes || text->size() > kMaxSyntaxBytes) {
      return Wrong(name);
    }
    return *text;
  }

  static Status ReadTools(const Json& root, std::vector<ToolCallFormat::Tool>* tools) {
    const Json* list = root.Find("tools");
    const Json::Array* array = list == nullptr ? nullptr : list->AsArray();
    if (array == nullptr || array->empty() || array->size() > kMaxTools) return Wrong("tools");
    std::set<std::string> names;
    for (const Json& tool : *array) {
      const Json* name = tool.Find("name");
      const Json* parameters = tool.Find("parameters");
      if (name == nullptr || name->AsString() == nullptr || parameters == nullptr) {
        return Wrong("tools");
      }
      if (!IsToolName(*name->AsString()) || !names.insert(*name->AsString()).second) {
        return InvalidArgument("the names of tools must be different ones, of a-z A-Z 0-9 _ - .");
      }
      tools->push_back({.name = *name->AsString(), .parameters = *parameters});
    }
    return OkStatus();
  }
};

class ToolCallCompiler {
 public:
  explicit ToolCallCompiler(const ToolCallFormat& format)
      : format_(format),
        begin_(InBytes(format.syntax.begin)),
        marker_(InBytes(format.syntax.marker)) {}

  StatusOr<Grammar> Compile() {
    ASSIGN_OR_RETURN(const NodeIdx names, AddCalls());
    NodeIdx start = builder_.Literal(begin_, names);
    if (!format_.is_required) {
      if (format_.text_schema) {
        ASSIGN_OR_RETURN(const NodeIdx text, AddTextSchema());
        start = builder_.Either(builder_.Call(text, builder_.Return()), start);
      } else {
        start = marker_.empty() ? TextUnlessBegin(names) : TextUntilMarker(names);
      }
    }
    ASSIGN_OR_RETURN(Grammar grammar, builder_.Build(start));
    if (!Prune(grammar)) return InvalidArgument("no arguments of finite length are valid");
    return grammar;
  }

 private:
  // From the first name on.
  StatusOr<NodeIdx> AddCalls() {
    const NodeIdx names = builder_.Later();
    NodeIdx tail = builder_.Literal(InBytes(format_.syntax.end), builder_.Return());
    if (format_.syntax.next) {
      tail = builder_.Either(builder_.Literal(InBytes(*format_.syntax.next), names), tail);
    }
    std::optional<NodeIdx> calls;
    for (const ToolCallFormat::Tool& tool : format_.tools) {
      ASSIGN_OR_RETURN(const NodeIdx arguments, AddArguments(tool));
      const NodeIdx call = builder_.Literal(tool.name + InBytes(format_.syntax.middle),
                                            builder_.Call(arguments, tail));
      calls = calls ? builder_.Either(*calls, call) : call;
    }
    builder_.Become(names, *calls);
    return names;
  }

  StatusOr<NodeIdx> AddArguments(const ToolCallFormat::Tool& tool) {
    auto rule = [&]() -> StatusOr<NodeIdx> {
      ASSIGN_OR_RETURN(Json schema, OfObjects(tool.parameters));
      return AddSchema(std::move(schema));
    }();
    if (!rule.ok()) return Annotate(rule.status(), tool.name);
    return rule;
  }

  StatusOr<NodeIdx> AddTextSchema() {
    ASSIGN_OR_RETURN(Json schema, Json::Parse(*format_.text_schema,
                                              {.max_bytes = wire::kMaxOutputFormatBytes}));
    return AddSchema(std::move(schema));
  }

  StatusOr<NodeIdx> AddSchema(Json schema) {
    schemas_.push_back(std::move(schema));
    return SchemaCompiler(schemas_.back(), builder_, text_).AddRule();
  }

  // What any text may have: no special token.
  NodeIdx AnyByte(NodeIdx next) { return builder_.Bytes(0, kSpecialTokenByte - 1, next); }

  // Any text, or nothing.
  NodeIdx AnyText() {
    return builder_.RepeatFrom(0, builder_.Return(), [&](NodeIdx next) { return AnyByte(next); });
  }

  // Text that does not begin like calls, or calls.
  NodeIdx TextUnlessBegin(NodeIdx names) {
    const NodeIdx text = AnyText();
    NodeIdx at = names;
    for (auto byte = begin_.rbegin(); byte != begin_.rend(); ++byte) {
      at = Step({{static_cast<uint8_t>(*byte), at}}, text);
    }
    return at;
  }

  // Text in which the marker comes only with calls behind it.
  NodeIdx TextUntilMarker(NodeIdx names) {
    const NodeIdx calls = builder_.Literal(std::string_view(begin_).substr(marker_.size()), names);
    if (static_cast<uint8_t>(marker_[0]) == kSpecialTokenByte) {
      // It is one token, or none of it is there.
      const NodeIdx text = builder_.Later();
      builder_.Become(text, Ending(builder_.Either(AnyByte(text),
                                                   builder_.Literal(marker_, calls))));
      return text;
    }
    // The automaton of Knuth, Morris and Pratt: in state i the text ends with the first i bytes of
    // the marker, and with no more of them.
    std::vector<NodeIdx> states(marker_.size());
    for (NodeIdx& state : states) state = builder_.Later();
    std::vector<std::map<uint8_t, size_t>> moves;  // those that do not lead to state 0
    size_t border = 0;  // the state behind these i bytes but for the first
    for (size_t i = 0; i < states.size(); ++i) {
      const auto byte = static_cast<uint8_t>(marker_[i]);
      std::map<uint8_t, size_t> move = i == 0 ? std::map<uint8_t, size_t>() : moves[border];
      if (i > 0) border = move.contains(byte) ? move[byte] : 0;
      move[byte] = i + 1;
      std::map<uint8_t, NodeIdx> targets;
      for (const auto& [read, to] : move) targets[read] = to < states.size() ? states[to] : calls;
      builder_.Become(states[i], Step(targets, states[0]));
      moves.push_back(std::move(move));
    }
    return states[0];
  }

  // The text may end here.
  NodeIdx Ending(NodeIdx node) { return builder_.Either(node, builder_.Return()); }

  // One byte, to its target or else to `other`; or the end.
  NodeIdx Step(const std::map<uint8_t, NodeIdx>& targets, NodeIdx other) {
    NodeIdx result = builder_.Return();
    int first = 0;
    for (const auto& [byte, target] : targets) {
      if (first < byte) result = Either(first, byte - 1, other, result);
      result = Either(byte, byte, target, result);
      first = byte + 1;
    }
    return Either(first, kSpecialTokenByte - 1, other, result);
  }

  NodeIdx Either(int first, int last, NodeIdx next, NodeIdx or_else) {
    if (first > last) return or_else;
    return builder_.Either(
        builder_.Bytes(static_cast<uint8_t>(first), static_cast<uint8_t>(last), next), or_else);
  }

  const ToolCallFormat& format_;
  const std::string begin_;
  const std::string marker_;
  GrammarBuilder builder_;
  JsonText text_{builder_};
  std::deque<Json> schemas_;
};

}  // namespace

bool IsToolNameByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '-' || c == '.';
}

bool IsToolName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes &&
         std::ranges::all_of(name, IsToolNameByte);
}

Status CheckParameters(const Json& parameters) {
  ASSIGN_OR_RETURN(const Json schema, OfObjects(parameters));
  return JsonSchemaGrammar(schema.Dump()).status();
}

std::string ToSource(const ToolCallFormat& format) {
  Json::Object source = {{"begin", format.syntax.begin},
                         {"middle", format.syntax.middle},
                         {"end", format.syntax.end},
                         {"marker", format.syntax.marker},
                         {"required", format.is_required}};
  if (format.syntax.next) source.emplace_back("next", *format.syntax.next);
  if (format.text_schema) source.emplace_back(kTextSchema, *format.text_schema);
  Json::Array tools;
  for (const ToolCallFormat::Tool& tool : format.tools) {
    tools.push_back(Json::Object{{"name", tool.name}, {"parameters", tool.parameters}});
  }
  source.emplace_back("tools", std::move(tools));
  return Json(std::move(source)).Dump();
}

StatusOr<Grammar> ToolCallsGrammar(std::string_view source) {
  ASSIGN_OR_RETURN(const ToolCallFormat format, SourceReader::Read(source));
  return ToolCallCompiler(format).Compile();
}

}  // namespace aril::grammar

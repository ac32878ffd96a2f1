#include "grammar/tool_calls.h"

#include <algorithm>
#include <cstdint>
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

using Tool = ToolCallFormat::Tool;

constexpr const char* kTextSchema = "text_schema";
constexpr char kSpecialByte = static_cast<char>(kSpecialTokenByte);
// What a JSON value may begin with, and whitespace.
constexpr std::string_view kBeginsJson = " \t\r\n{[\"-0123456789tfn";

// With the bytes of special tokens in place of their marks.
std::string InBytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kSpecialTokenMark)) {
      bytes.push_back(kSpecialByte);
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
  const auto is_object = [](const Json& type) {
    return type.AsString() != nullptr && *type.AsString() == "object";
  };
  Json* type = schema.Find("type");
  if (type == nullptr) {
    schema.AsObject()->emplace_back("type", "object");
  } else if (type->AsArray() != nullptr && std::ranges::any_of(*type->AsArray(), is_object)) {
    *type = "object";
  } else if (!is_object(*type)) {
    return InvalidArgument("#: `type` must be \"object\"");
  }
  return schema;
}

// The rule of a tool's arguments.
StatusOr<NodeIdx> AddArguments(const Tool& tool, GrammarBuilder& builder, JsonText& text) {
  const auto schema = OfObjects(tool.parameters);
  if (!schema.ok()) return Annotate(schema.status(), tool.name);
  auto rule = SchemaCompiler(*schema, builder, text).AddRule();
  if (!rule.ok()) return Annotate(rule.status(), tool.name);
  return rule;
}

// Without their marks.
std::string Plain(std::string_view text) {
  std::string plain = InBytes(text);
  std::erase(plain, kSpecialByte);
  return plain;
}

// What stands between two marks; nothing if there are half, or empty, special tokens.
std::optional<std::vector<std::string>> SpecialTokensIn(std::string_view text) {
  const std::string bytes = InBytes(text);
  std::vector<std::string> tokens;
  for (size_t at = bytes.find(kSpecialByte); at != std::string::npos;) {
    const size_t end = bytes.find(kSpecialByte, at + 1);
    if (end == std::string::npos || end == at + 1) return std::nullopt;
    tokens.push_back(bytes.substr(at + 1, end - at - 1));
    at = bytes.find(kSpecialByte, end + 1);
  }
  return tokens;
}

Json AnyObject() { return Json::Object{{"type", "object"}}; }

class SourceReader {
 public:
  static StatusOr<ToolCallFormat> Read(std::string_view source) {
    ASSIGN_OR_RETURN(const Json root,
                     Json::Parse(source, {.max_bytes = wire::kMaxOutputFormatBytes}));
    ToolCallFormat format;
    ASSIGN_OR_RETURN(format.syntax.begin, Text(root, "begin"));
    ASSIGN_OR_RETURN(format.syntax.middle, Text(root, "middle"));
    ASSIGN_OR_RETURN(format.syntax.end, Text(root, "end"));
    ASSIGN_OR_RETURN(format.syntax.marker, Text(root, "marker"));
    if (root.Find("next") != nullptr) {
      ASSIGN_OR_RETURN(format.syntax.next, Text(root, "next"));
    }
    RETURN_IF_ERROR(CheckSyntax(format.syntax));
    const Json* required = root.Find("required");
    if (required == nullptr || required->AsBool() == nullptr) return Wrong("required");
    format.is_required = *required->AsBool();
    if (const Json* schema = root.Find(kTextSchema)) {
      if (!IsUnlikeJson(format.syntax)) return Wrong(kTextSchema);
      format.text_schema = *schema;
    }
    RETURN_IF_ERROR(ReadTools(root, &format.tools));
    return format;
  }

 private:
  static Status Wrong(const char* name) {
    return InvalidArgument(StrCat("`", name, "` is missing, or not what it should be"));
  }

  static StatusOr<std::string> Text(const Json& root, const char* name) {
    const Json* value = root.Find(name);
    if (value == nullptr || value->AsString() == nullptr) return Wrong(name);
    return *value->AsString();
  }

  static Status ReadTools(const Json& root, std::vector<Tool>* tools) {
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
        ASSIGN_OR_RETURN(const NodeIdx text,
                         SchemaCompiler(*format_.text_schema, builder_, text_).AddRule());
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
    const std::string end = InBytes(format_.syntax.end);
    NodeIdx tail = builder_.Literal(end, builder_.Return());
    if (format_.syntax.next) {
      // Where more may follow the model has to end the text, and some write a new line before.
      const NodeIdx spaces = builder_.Repeat(0, kMaxCallSpaces, builder_.Return(),
                                             [&](NodeIdx behind) { return Space(behind); });
      tail = builder_.Either(builder_.Literal(InBytes(*format_.syntax.next), names),
                             builder_.Literal(end, spaces));
    }
    std::optional<NodeIdx> calls;
    for (const Tool& tool : format_.tools) {
      ASSIGN_OR_RETURN(const NodeIdx arguments, AddArguments(tool, builder_, text_));
      const NodeIdx call = builder_.Literal(tool.name + InBytes(format_.syntax.middle),
                                            builder_.Call(arguments, tail));
      calls = calls ? builder_.Either(*calls, call) : call;
    }
    builder_.Become(names, *calls);
    return names;
  }

  NodeIdx Space(NodeIdx next) {
    NodeIdx result = text_.Nothing();
    for (const char space : kCallSpaces) {
      const auto byte = static_cast<uint8_t>(space);
      result = ByteOr(byte, byte, next, result);
    }
    return result;
  }

  // Text that does not begin like calls, but for some whitespace, or calls.
  NodeIdx TextUnlessBegin(NodeIdx names) {
    const NodeIdx text = builder_.Later();
    builder_.Become(text, Step({}, text, text));
    NodeIdx at = names;
    for (size_t i = begin_.size(); i-- > 1;) {
      at = TextStep({{static_cast<uint8_t>(begin_[i]), at}}, text);
    }
    const auto first = static_cast<uint8_t>(begin_[0]);
    NodeIdx start = TextStep({{first, at}}, text);
    for (int64_t i = 0; i < kMaxCallSpaces; ++i) {
      std::map<uint8_t, NodeIdx> targets = {{first, at}};
      for (const char space : kCallSpaces) targets[static_cast<uint8_t>(space)] = start;
      start = TextStep(targets, text);
    }
    return start;
  }
  // A special token that is not shown leaves the text where it is.
  NodeIdx TextStep(const std::map<uint8_t, NodeIdx>& targets, NodeIdx other) {
    const NodeIdx before = builder_.Later();
    builder_.Become(before, Step(targets, other, before));
    return before;
  }

  // Text in which the marker comes only with calls behind it.
  NodeIdx TextUntilMarker(NodeIdx names) {
    const NodeIdx calls = builder_.Literal(std::string_view(begin_).substr(marker_.size()), names);
    // Whoever reads the text cannot tell a special token from what is spelled like it.
    const std::string spelled = Plain(format_.syntax.marker);
    const bool is_special = spelled != marker_;
    const NodeIdx behind_spelled = is_special ? text_.Nothing() : calls;
    const NodeIdx special = is_special ? builder_.Literal(marker_, calls) : text_.Nothing();
    // The automaton of Knuth, Morris and Pratt: in state i the text ends with the first i bytes of
    // the marker, and with no more of them.
    std::vector<NodeIdx> states(spelled.size());
    for (NodeIdx& state : states) state = builder_.Later();
    std::vector<std::map<uint8_t, size_t>> moves;  // those that do not lead to state 0
    size_t border = 0;  // the state behind these i bytes but for the first
    for (size_t i = 0; i < states.size(); ++i) {
      const auto byte = static_cast<uint8_t>(spelled[i]);
      std::map<uint8_t, size_t> move = i == 0 ? std::map<uint8_t, size_t>() : moves[border];
      if (i > 0) border = move.contains(byte) ? move[byte] : 0;
      move[byte] = i + 1;
      std::map<uint8_t, NodeIdx> targets;
      for (const auto& [read, to] : move) {
        targets[read] = to < states.size() ? states[to] : behind_spelled;
      }
      builder_.Become(states[i], builder_.Either(Step(targets, states[0], states[i]), special));
      moves.push_back(std::move(move));
    }
    return states[0];
  }

  // Any special token but those that calls are written with, as a rule.
  NodeIdx OtherSpecialToken() {
    if (other_special_) return *other_special_;
    const NodeIdx rest = builder_.Later();
    builder_.Become(rest, builder_.Either(builder_.Bytes(0, kSpecialTokenByte - 1, rest),
                                          SpecialTokenByte(builder_.Return())));
    other_special_ = SpecialTokenByte(SpecialTokenBesides(OwnSpecialTokens(), 0, rest));
    return *other_special_;
  }
  // What follows the bytes before `at`, with which all of `own` begin, in any other special token.
  NodeIdx SpecialTokenBesides(const std::set<std::string>& own, size_t at, NodeIdx rest) {
    std::map<uint8_t, std::set<std::string>> longer;
    for (const std::string& token : own) {
      if (token.size() > at) longer[static_cast<uint8_t>(token[at])].insert(token);
    }
    const bool is_own =
        std::ranges::any_of(own, [at](const std::string& token) { return token.size() == at; });
    NodeIdx result = at == 0 || is_own ? text_.Nothing() : SpecialTokenByte(builder_.Return());
    int first = 0;
    for (const auto& [byte, tokens] : longer) {
      result = ByteOr(first, byte - 1, rest, result);
      result = ByteOr(byte, byte, SpecialTokenBesides(tokens, at + 1, rest), result);
      first = byte + 1;
    }
    return ByteOr(first, kSpecialTokenByte - 1, rest, result);
  }
  std::set<std::string> OwnSpecialTokens() const {
    std::set<std::string> own;
    const ToolCallSyntax& syntax = format_.syntax;
    for (const std::string& text :
         {syntax.begin, syntax.middle, syntax.next.value_or(""), syntax.end}) {
      const auto tokens = SpecialTokensIn(text);
      own.insert(tokens->begin(), tokens->end());
    }
    return own;
  }
  NodeIdx SpecialTokenByte(NodeIdx next) {
    return builder_.Bytes(kSpecialTokenByte, kSpecialTokenByte, next);
  }

  // One byte of text, to its target or else to `other`; or a special token, to `behind_special`; or
  // the end.
  NodeIdx Step(const std::map<uint8_t, NodeIdx>& targets, NodeIdx other, NodeIdx behind_special) {
    NodeIdx result =
        builder_.Either(builder_.Call(OtherSpecialToken(), behind_special), builder_.Return());
    int first = 0;
    for (const auto& [byte, target] : targets) {
      result = ByteOr(first, byte - 1, other, result);
      result = ByteOr(byte, byte, target, result);
      first = byte + 1;
    }
    return ByteOr(first, kSpecialTokenByte - 1, other, result);
  }

  // A byte of [first, last], if there are any, then `next`; or `or_else`.
  NodeIdx ByteOr(int first, int last, NodeIdx next, NodeIdx or_else) {
    if (first > last) return or_else;
    return builder_.Either(
        builder_.Bytes(static_cast<uint8_t>(first), static_cast<uint8_t>(last), next), or_else);
  }

  const ToolCallFormat& format_;
  const std::string begin_;
  const std::string marker_;
  GrammarBuilder builder_;
  JsonText text_{builder_};
  std::optional<NodeIdx> other_special_;
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

Status CheckSyntax(const ToolCallSyntax& syntax) {
  for (const std::string& text :
       {syntax.begin, syntax.middle, syntax.next.value_or(""), syntax.end, syntax.marker}) {
    if (text.size() > kMaxSyntaxBytes || !SpecialTokensIn(text)) {
      return InvalidArgument("a text of the syntax is too long, or has half a special token");
    }
  }
  const std::string begin = Plain(syntax.begin);
  if (begin.empty() || !syntax.begin.starts_with(syntax.marker) ||
      kCallSpaces.find(begin[0]) != std::string_view::npos) {
    return InvalidArgument("`begin` is empty, or begins with whitespace, or not with `marker`");
  }
  // One special token, or none.
  const std::string marker = Plain(syntax.marker);
  const std::string special = StrCat(kSpecialTokenMark, marker, kSpecialTokenMark);
  if (syntax.marker != marker && (marker.empty() || syntax.marker != special)) {
    return InvalidArgument("`marker` has special tokens, and is not one of them");
  }
  if (marker.empty() && syntax.begin != begin) {
    return InvalidArgument("`begin` has special tokens, and none is its `marker`");
  }
  const std::string middle = Plain(syntax.middle);
  if (middle.empty() || IsToolNameByte(middle[0])) {
    return InvalidArgument("`middle` is empty, or begins with what could belong to a name");
  }
  if (syntax.next) {
    const std::string next = Plain(*syntax.next);
    if (next.empty() || Plain(syntax.end).starts_with(next)) {
      return InvalidArgument("`next` is empty, or `end` begins with it");
    }
  }
  return OkStatus();
}

bool IsUnlikeJson(const ToolCallSyntax& syntax) {
  const std::string marker = Plain(syntax.marker);
  if (marker.empty()) return false;
  const auto begins_json = [](char c) { return kBeginsJson.find(c) != std::string_view::npos; };
  if (marker[0] != '[' || marker.size() == 1) return !begins_json(marker[0]);
  return !begins_json(marker[1]) && marker[1] != ']';
}

Status Loosen(ToolCallFormat* format) {
  if (ToSource(*format).size() > wire::kMaxOutputFormatBytes) LoosenAll(format);
  GrammarBuilder builder;
  JsonText text(builder);
  for (Tool& tool : format->tools) {
    Status status = AddArguments(tool, builder, text).status();
    if (builder.is_full()) {
      LoosenAll(format);
      break;
    }
    if (status.ok()) continue;
    if (tool.is_strict) return status;
    tool.parameters = AnyObject();
  }
  return OkStatus();
}

bool LoosenAll(ToolCallFormat* format) {
  bool has_changed = false;
  for (Tool& tool : format->tools) {
    if (tool.is_strict || tool.parameters.Dump() == AnyObject().Dump()) continue;
    tool.parameters = AnyObject();
    has_changed = true;
  }
  return has_changed;
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
  for (const Tool& tool : format.tools) {
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

#include "grammar/tool_calls.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/strings.h"
#include "grammar/free_text.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/prune.h"
#include "grammar/schema_compiler.h"
#include "wire/limits.h"

namespace aril::grammar {
namespace {

using Tool = ToolCallFormat::Tool;

constexpr const char* kTextSchema = "text_schema";
constexpr const char* kArgument = "argument";
// Whoever knows nothing of kArgument is to miss a `middle`, and not to expect an object.
constexpr const char* kMiddleOfOneByOne = "middle_of_one_by_one";
// What a JSON value may begin with, and whitespace.
constexpr std::string_view kBeginsJson = " \t\r\n{[\"-0123456789tfn";

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

// The rules of tools' arguments. Not thread-safe; all must outlive it.
class ArgumentsCompiler {
 public:
  ArgumentsCompiler(const ToolCallSyntax& syntax, GrammarBuilder& builder, JsonText& text)
      : builder_(builder), text_(text) {
    if (!syntax.argument) return;
    FreeText values(builder);
    const auto until = [&](const std::string& end) {
      return values.Until(end, /*may_end=*/false, builder.Return());
    };
    form_.emplace(ArgumentForm{.syntax = *syntax.argument,
                               .text_until_middle = until(syntax.argument->middle),
                               .text_until_end = until(syntax.argument->end)});
  }

  StatusOr<NodeIdx> AddRule(const Tool& tool) {
    const auto schema = OfObjects(tool.parameters);
    if (!schema.ok()) return Annotate(schema.status(), tool.name);
    if (form_) form_->is_strict = tool.is_strict;
    SchemaCompiler compiler(*schema, builder_, text_);
    auto rule = form_ ? compiler.AddArgumentsRule(*form_) : compiler.AddRule();
    if (!rule.ok()) return Annotate(rule.status(), tool.name);
    return rule;
  }

 private:
  GrammarBuilder& builder_;
  JsonText& text_;
  std::optional<ArgumentForm> form_;
};

Json AnyObject() { return Json::Object{{"type", "object"}}; }

class SourceReader {
 public:
  static StatusOr<ToolCallFormat> Read(std::string_view source) {
    ASSIGN_OR_RETURN(const Json root,
                     Json::Parse(source, {.max_bytes = wire::kMaxOutputFormatBytes}));
    ToolCallFormat format;
    ASSIGN_OR_RETURN(format.syntax.begin, Text(root, "begin"));
    const Json* argument = root.Find(kArgument);
    ASSIGN_OR_RETURN(format.syntax.middle,
                     Text(root, argument == nullptr ? "middle" : kMiddleOfOneByOne));
    if (argument != nullptr) {
      format.syntax.argument.emplace();
      ASSIGN_OR_RETURN(format.syntax.argument->begin, Text(*argument, "begin"));
      ASSIGN_OR_RETURN(format.syntax.argument->middle, Text(*argument, "middle"));
      ASSIGN_OR_RETURN(format.syntax.argument->end, Text(*argument, "end"));
    }
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
  ToolCallCompiler(const ToolCallFormat& format, const wire::Reasoning& reasoning)
      : format_(format),
        begin_(WithSpecialBytes(format.syntax.begin)),
        unlike_(WithoutSpecialMarks(reasoning.begin)),
        answer_(WithSpecialBytes(reasoning.answer)),
        free_text_(builder_, OwnSpecialTokens(format.syntax, reasoning)) {}

  StatusOr<Grammar> Compile() {
    ASSIGN_OR_RETURN(const NodeIdx names, AddCalls());
    NodeIdx start = builder_.Literal(begin_, names);
    if (!format_.is_required) {
      if (format_.text_schema) {
        ASSIGN_OR_RETURN(const NodeIdx text,
                         SchemaCompiler(*format_.text_schema, builder_, text_).AddRule());
        const NodeIdx whole = builder_.Call(text, builder_.Return());
        start = builder_.Either(builder_.Literal(answer_, whole), start);
      } else if (!answer_.empty()) {
        start = builder_.Either(builder_.Literal(answer_, AnyText()), start);
      } else {
        start = format_.syntax.marker.empty() ? TextUnlessBegin(names) : TextUntilMarker(names);
      }
    }
    ASSIGN_OR_RETURN(Grammar grammar, builder_.Build(start));
    if (!Prune(grammar)) return InvalidArgument("no arguments of finite length are valid");
    return grammar;
  }

 private:
  // Where answers have a beginning, their text has nothing of what comes between messages, either.
  static std::set<std::string> OwnSpecialTokens(const ToolCallSyntax& syntax,
                                                const wire::Reasoning& reasoning) {
    std::set<std::string> own;
    const std::string end = reasoning.answer.empty() ? "" : reasoning.end;
    std::vector<std::string> texts = TextsOf(syntax);
    texts.insert(texts.end(), {reasoning.begin, reasoning.answer, end});
    for (const std::string& text : texts) {
      const auto tokens = SpecialTokensIn(text);
      if (tokens) own.insert(tokens->begin(), tokens->end());
    }
    return own;
  }

  // From the first name on.
  StatusOr<NodeIdx> AddCalls() {
    const NodeIdx names = builder_.Later();
    const std::string end = WithSpecialBytes(format_.syntax.end);
    NodeIdx tail = builder_.Literal(end, builder_.Return());
    if (format_.syntax.next) {
      // Where more may follow the model has to end the text, and some write a new line before.
      tail = builder_.Either(builder_.Literal(WithSpecialBytes(*format_.syntax.next), names),
                             builder_.Literal(end, free_text_.Spaces(builder_.Return())));
    }
    ArgumentsCompiler arguments(format_.syntax, builder_, text_);
    std::optional<NodeIdx> calls;
    for (const Tool& tool : format_.tools) {
      ASSIGN_OR_RETURN(const NodeIdx rule, arguments.AddRule(tool));
      const NodeIdx call = builder_.Literal(tool.name + WithSpecialBytes(format_.syntax.middle),
                                            builder_.Call(rule, tail));
      calls = calls ? builder_.Either(*calls, call) : call;
    }
    builder_.Become(names, *calls);
    return names;
  }

  NodeIdx TextUntilMarker(NodeIdx names) {
    const std::string& marker = format_.syntax.marker;
    const std::string rest = WithSpecialBytes(format_.syntax.begin.substr(marker.size()));
    return free_text_.Until(marker, /*may_end=*/true, builder_.Literal(rest, names), unlike_);
  }

  NodeIdx AnyText() {
    const NodeIdx text = builder_.Later();
    builder_.Become(text, TextStep({}, text, text));
    return text;
  }

  // Text that does not begin like calls, but for some whitespace, or calls.
  NodeIdx TextUnlessBegin(NodeIdx names) {
    const NodeIdx text = AnyText();
    std::vector<Beginning> beginnings = {{begin_, names}};
    if (!unlike_.empty()) beginnings.emplace_back(unlike_, builder_.Nothing());
    NodeIdx start = TextUnless(beginnings, 0, text);
    for (int64_t i = 0; i < kMaxSpaces; ++i) {
      FreeText::Targets spaces;
      for (const char space : kSpaces) spaces[static_cast<uint8_t>(space)] = start;
      start = TextUnless(beginnings, 0, text, spaces);
    }
    return start;
  }
  // What a text may begin with, and what is behind that.
  using Beginning = std::pair<std::string_view, NodeIdx>;
  // Text, or the rest of one of these, of which `at` bytes were read, with what is behind it.
  NodeIdx TextUnless(const std::vector<Beginning>& beginnings, size_t at, NodeIdx text,
                     FreeText::Targets targets = {}) {
    std::map<uint8_t, std::vector<Beginning>> by_byte;
    for (const Beginning& beginning : beginnings) {
      by_byte[static_cast<uint8_t>(beginning.first[at])].push_back(beginning);
    }
    for (const auto& [byte, those] : by_byte) {
      const auto whole = std::ranges::find_if(
          those, [at](const Beginning& beginning) { return beginning.first.size() == at + 1; });
      targets[byte] = whole != those.end() ? whole->second : TextUnless(those, at + 1, text);
    }
    const NodeIdx here = builder_.Later();
    // A special token that is not shown leaves the text where it is.
    builder_.Become(here, TextStep(targets, text, here));
    return here;
  }
  NodeIdx TextStep(const FreeText::Targets& targets, NodeIdx other, NodeIdx behind_special) {
    return builder_.Either(free_text_.Step(targets, other, behind_special), builder_.Return());
  }

  const ToolCallFormat& format_;
  const std::string begin_;
  const std::string unlike_;
  const std::string answer_;
  GrammarBuilder builder_;
  JsonText text_{builder_};
  FreeText free_text_;
};

}  // namespace

namespace {

// What follows an argument is another one or the end of the call, and each is told by its text.
Status CheckArgument(const ToolCallSyntax& syntax) {
  const auto& [argument_begin, middle, value_end] = *syntax.argument;
  if (!IsMarker(middle) || !IsMarker(value_end)) {
    return InvalidArgument(
        "`middle` or `end` of an argument is empty, or does not begin with its special token");
  }
  // A line ends in no string of JSON, and outside of them there is no <.
  const std::string shown_end = WithoutSpecialMarks(value_end);
  if (shown_end.find("\n<") == std::string::npos && shown_end.find(">\n") == std::string::npos) {
    return InvalidArgument("`end` of an argument could be in JSON");
  }
  const std::string begin = WithoutSpecialMarks(argument_begin);
  const std::string end = WithoutSpecialMarks(syntax.end);
  const std::string next = WithoutSpecialMarks(syntax.next.value_or(end));
  for (const std::string& behind : {end, next}) {
    if (begin.empty() || behind.empty() || behind.starts_with(begin) || begin.starts_with(behind)) {
      return InvalidArgument("what begins an argument is nothing, or may end a call");
    }
  }
  return OkStatus();
}

}  // namespace

bool IsToolNameByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '-' || c == '.';
}

bool IsToolName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes &&
         std::ranges::all_of(name, IsToolNameByte);
}

std::vector<std::string> TextsOf(const ToolCallSyntax& syntax) {
  std::vector<std::string> texts = {syntax.begin, syntax.middle, syntax.end};
  if (syntax.next) texts.push_back(*syntax.next);
  if (const auto& argument = syntax.argument) {
    texts.insert(texts.end(), {argument->begin, argument->middle, argument->end});
  }
  return texts;
}

Status CheckSyntax(const ToolCallSyntax& syntax) {
  std::vector<std::string> texts = TextsOf(syntax);
  texts.push_back(syntax.marker);
  for (const std::string& text : texts) {
    if (text.size() > kMaxSyntaxBytes || !SpecialTokensIn(text)) {
      return InvalidArgument("a text of the syntax is too long, or has half a special token");
    }
  }
  const std::string begin = WithoutSpecialMarks(syntax.begin);
  if (begin.empty() || !syntax.begin.starts_with(syntax.marker) ||
      kSpaces.find(begin[0]) != std::string_view::npos) {
    return InvalidArgument("`begin` is empty, or begins with whitespace, or not with `marker`");
  }
  if (!syntax.marker.empty() && !IsMarker(syntax.marker)) {
    return InvalidArgument("`marker` has special tokens, and does not begin with one");
  }
  if (syntax.marker.empty() && syntax.begin != begin) {
    return InvalidArgument("`begin` has special tokens, and none is its `marker`");
  }
  const std::string middle = WithoutSpecialMarks(syntax.middle);
  if (middle.empty() || IsToolNameByte(middle[0])) {
    return InvalidArgument("`middle` is empty, or begins with what could belong to a name");
  }
  if (syntax.next) {
    const std::string next = WithoutSpecialMarks(*syntax.next);
    if (next.empty() || WithoutSpecialMarks(syntax.end).starts_with(next)) {
      return InvalidArgument("`next` is empty, or `end` begins with it");
    }
  }
  return syntax.argument ? CheckArgument(syntax) : OkStatus();
}

bool IsUnlikeJson(const ToolCallSyntax& syntax) {
  const std::string marker = WithoutSpecialMarks(syntax.marker);
  if (marker.empty()) return false;
  const auto begins_json = [](char c) { return kBeginsJson.find(c) != std::string_view::npos; };
  if (marker[0] != '[' || marker.size() == 1) return !begins_json(marker[0]);
  return !begins_json(marker[1]) && marker[1] != ']';
}

Status Loosen(ToolCallFormat* format) {
  if (ToSource(*format).size() > wire::kMaxOutputFormatBytes) LoosenAll(format);
  GrammarBuilder builder;
  JsonText text(builder);
  ArgumentsCompiler arguments(format->syntax, builder, text);
  for (Tool& tool : format->tools) {
    Status status = arguments.AddRule(tool).status();
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
  const auto& argument = format.syntax.argument;
  Json::Object source = {{"begin", format.syntax.begin},
                         {argument ? kMiddleOfOneByOne : "middle", format.syntax.middle},
                         {"end", format.syntax.end},
                         {"marker", format.syntax.marker},
                         {"required", format.is_required}};
  if (format.syntax.next) source.emplace_back("next", *format.syntax.next);
  if (argument) {
    source.emplace_back(kArgument, Json::Object{{"begin", argument->begin},
                                                {"middle", argument->middle},
                                                {"end", argument->end}});
  }
  if (format.text_schema) source.emplace_back(kTextSchema, *format.text_schema);
  Json::Array tools;
  for (const Tool& tool : format.tools) {
    tools.push_back(Json::Object{{"name", tool.name}, {"parameters", tool.parameters}});
  }
  source.emplace_back("tools", std::move(tools));
  return Json(std::move(source)).Dump();
}

StatusOr<Grammar> ToolCallsGrammar(std::string_view source, const wire::Reasoning& reasoning) {
  ASSIGN_OR_RETURN(const ToolCallFormat format, SourceReader::Read(source));
  const std::string marker = WithoutSpecialMarks(format.syntax.marker);
  const std::string unlike = WithoutSpecialMarks(reasoning.begin);
  // A marker is nothing where calls come in place of an answer.
  const bool has_marker =
      reasoning.answer.empty() && !marker.empty() && unlike.find(marker) != std::string::npos;
  if (!unlike.empty() &&
      (has_marker || WithoutSpecialMarks(format.syntax.begin).starts_with(unlike))) {
    return InvalidArgument("reasoning begins with what calls begin with");
  }
  return ToolCallCompiler(format, reasoning).Compile();
}

}  // namespace aril::grammar

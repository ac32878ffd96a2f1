#include "gateway/tool_fields.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "grammar/schema_keywords.h"

namespace aril::gateway {
namespace {

using Tool = grammar::ToolCallFormat::Tool;

// What says more of a function than that it is one; null if there is no such object.
const Json* BodyOf(const Json& value, ToolStyle style) {
  const Json* type = value.Find("type");
  if (style == ToolStyle::kAnthropic) {
    const bool is_client = type == nullptr || type->is_null() || IsText(type, "custom");
    return is_client && value.AsObject() != nullptr ? &value : nullptr;
  }
  if (!IsText(type, "function")) return nullptr;
  const Json* body = style == ToolStyle::kFlat ? &value : value.Find("function");
  return body == nullptr || body->AsObject() == nullptr ? nullptr : body;
}

// As elements of `tools` and of allowed_tools, and a choice, name one; empty if this does not.
std::string NamedFunction(const Json& value, ToolStyle style) {
  const Json* function = BodyOf(value, style);
  const Json* name = function == nullptr ? nullptr : function->Find("name");
  return name == nullptr || name->AsString() == nullptr ? "" : *name->AsString();
}

// Without a schema a function takes no arguments.
Json NoParameters() { return Json::Object{{"type", "object"}, {"additionalProperties", false}}; }

const char* SchemaField(ToolStyle style) {
  return style == ToolStyle::kAnthropic ? "input_schema" : "parameters";
}

// Where the members of a tool are, in names of fields.
const char* BodyPath(ToolStyle style) { return style == ToolStyle::kNested ? ".function." : "."; }

const char* WhatToolsAre(ToolStyle style) {
  switch (style) {
    case ToolStyle::kNested:
      return "must be an object whose type is \"function\", with a `function`";
    case ToolStyle::kFlat:
      return "must be an object whose type is \"function\", with a `name`: tools that a server "
             "runs "
             "itself are not supported";
    case ToolStyle::kAnthropic:
      return "must be an object with a `name`, and without a type, or of the "
             "type \"custom\": tools that Anthropic defines or runs are not supported";
  }
  CHECK(false);
}

// The schema without what the grammar has no use for; the template gets the whole one.
Json ReadParameters(const Json& schema, ToolStyle style, JsonFields& function) {
  const Json* type = schema.Find("type");
  const bool names_other =
      type != nullptr && type->AsString() != nullptr && !IsText(type, "object");
  if (schema.AsObject() == nullptr || names_other) {
    function.Fail(SchemaField(style), "must be a JSON Schema of the type \"object\"");
  }
  return grammar::WithoutAnnotations(schema);
}

// What would leave a tool out of the prompt, or give its calls to others than the client.
void RefuseOtherCallers(JsonFields& function) {
  if (function.GetBool("defer_loading", false)) {
    function.Fail("defer_loading", "must be false: there is no tool that searches for tools");
  }
  const Json* callers = function.Find("allowed_callers");
  const Json::Array* list = callers == nullptr ? nullptr : callers->AsArray();
  const auto is_direct = [](const Json& caller) { return IsText(&caller, "direct"); };
  if (callers != nullptr && (list == nullptr || !std::ranges::any_of(*list, is_direct))) {
    function.Fail("allowed_callers",
                  "must have \"direct\": no tools are run here that could call it");
  }
}

Tool ReadTool(const std::string& where, const Json& value, ToolStyle style, JsonFields& fields) {
  const Json* body = BodyOf(value, style);
  if (body == nullptr) {
    fields.Fail(where, WhatToolsAre(style));
    return {};
  }
  JsonFields function(*body, where + BodyPath(style));
  Tool tool = {.name = function.GetString("name", ""), .parameters = {}};
  if (!grammar::IsToolName(tool.name)) {
    function.Fail("name", StrCat("is required, and has 1 to ", grammar::kMaxToolNameBytes,
                                 " of the characters a-z A-Z 0-9, `_`, `-` and `.`"));
  }
  function.GetString("description", "");
  tool.is_strict = function.GetBool("strict", false);
  if (style == ToolStyle::kAnthropic) RefuseOtherCallers(function);
  const Json* parameters = function.Find(SchemaField(style));
  tool.parameters =
      parameters == nullptr ? NoParameters() : ReadParameters(*parameters, style, function);
  fields.Take(function);
  return tool;
}

std::vector<Tool> ReadToolList(const Json& value, ToolStyle style, JsonFields& fields) {
  const Json::Array* list = value.AsArray();
  if (list == nullptr || list->size() > grammar::kMaxTools) {
    fields.Fail("tools", StrCat("must be an array of at most ", grammar::kMaxTools, " tools"));
    return {};
  }
  std::vector<Tool> tools;
  std::set<std::string> names;
  for (const Json& item : *list) {
    const std::string where = StrCat("tools[", tools.size(), "]");
    tools.push_back(ReadTool(where, item, style, fields));
    if (!fields.ok()) return {};
    if (!names.insert(tools.back().name).second) {
      fields.Fail(StrCat(where, BodyPath(style), "name"), "is that of another tool, too");
    }
  }
  return tools;
}

// The members of a function that templates know. OpenAI's library sends all of them, those that say
// nothing as null.
Json::Object FunctionOf(const Json& tool, ToolStyle style) {
  Json::Object function;
  if (style == ToolStyle::kFlat) {
    function = *tool.AsObject();
    std::erase_if(function, [](const auto& member) {
      return member.first == "type" || member.second.is_null();
    });
    return function;
  }
  // What else Anthropic's have is for its servers.
  for (const auto& [name, value] : *tool.AsObject()) {
    if (value.is_null()) continue;
    if (name == "input_schema") function.emplace_back("parameters", value);
    if (name == "name" || name == "description" || name == "strict") {
      function.emplace_back(name, value);
    }
  }
  return function;
}

// Templates know the nested style.
Json NestedTools(const Json& list, ToolStyle style) {
  if (style == ToolStyle::kNested) return list;
  Json::Array nested;
  for (const Json& tool : *list.AsArray()) {
    nested.push_back(Json::Object{{"type", "function"}, {"function", FunctionOf(tool, style)}});
  }
  return nested;
}

// Leaves only these tools.
void Restrict(const std::vector<std::string>& names, JsonFields& fields, ToolFields* tools) {
  for (const std::string& name : names) {
    if (std::ranges::find(tools->callable, name, &Tool::name) == tools->callable.end()) {
      return fields.Fail("tool_choice", "names a function that is not among `tools`");
    }
  }
  std::erase_if(tools->callable, [&](const Tool& tool) {
    return std::ranges::find(names, tool.name) == names.end();
  });
}

// {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}, or, flat, with these two in it.
void ReadAllowedTools(const Json& choice, ToolStyle style, JsonFields& fields, ToolFields* tools) {
  const Json* allowed = style == ToolStyle::kFlat ? &choice : choice.Find("allowed_tools");
  const Json* mode = allowed == nullptr ? nullptr : allowed->Find("mode");
  const Json* list = allowed == nullptr ? nullptr : allowed->Find("tools");
  tools->is_required = IsText(mode, "required");
  if ((!tools->is_required && !IsText(mode, "auto")) || list == nullptr ||
      list->AsArray() == nullptr || list->AsArray()->empty()) {
    return fields.Fail("tool_choice",
                       "of allowed tools must have a mode, \"auto\" or \"required\", and tools");
  }
  std::vector<std::string> names;
  for (const Json& item : *list->AsArray()) {
    names.push_back(NamedFunction(item, style));
    if (names.back().empty()) return fields.Fail("tool_choice", "allows what names no function");
  }
  Restrict(names, fields, tools);
}

void ReadChoice(const Json* choice, ToolStyle style, JsonFields& fields, ToolFields* tools) {
  if (choice == nullptr || IsText(choice, "auto")) return;
  if (tools->callable.empty()) return fields.Fail("tool_choice", "needs `tools`");
  if (IsText(choice, "required")) {
    tools->is_required = true;
  } else if (IsText(choice->Find("type"), "allowed_tools")) {
    ReadAllowedTools(*choice, style, fields, tools);
  } else if (const std::string name = NamedFunction(*choice, style); !name.empty()) {
    tools->is_required = tools->is_named = true;
    tools->is_parallel = false;
    Restrict({name}, fields, tools);
  } else {
    fields.Fail("tool_choice",
                StrCat("must be \"none\", \"auto\", \"required\", or an object that names a "
                       "function ({\"type\": \"function\", ",
                       style == ToolStyle::kFlat ? "\"name\": …}" : "\"function\": {\"name\": …}}",
                       ") or allowed tools"));
  }
}

// Anthropic's: {"type": "auto" | "any" | "tool" | "none", "name", "disable_parallel_tool_use"}.
void ReadAnthropicChoice(const Json* choice, JsonFields& fields, ToolFields* tools) {
  if (choice == nullptr) return;
  if (choice->AsObject() == nullptr) {
    return fields.Fail("tool_choice", "must be an object, not " + choice->KindName());
  }
  JsonFields inner(*choice, "tool_choice.");
  const std::string type = inner.GetString("type", "");
  const std::string name = inner.GetString("name", "");
  tools->is_parallel = !inner.GetBool("disable_parallel_tool_use", false);
  fields.Take(inner);
  if (!fields.ok() || type == "auto") return;
  if (tools->callable.empty()) return fields.Fail("tool_choice", "needs `tools`");
  tools->is_required = true;
  if (type == "tool" && !name.empty()) {
    // Not is_named: the answer ends for its call here.
    tools->is_parallel = false;
    Restrict({name}, fields, tools);
  } else if (type != "any") {
    fields.Fail(
        "tool_choice",
        "must be of the type \"auto\", \"any\", \"none\", or \"tool\" with the `name` of one");
  }
}

}  // namespace

ToolFields ReadTools(JsonFields& fields, ToolStyle style) {
  ToolFields tools;
  const bool is_anthropic = style == ToolStyle::kAnthropic;
  const Json* list = fields.Find("tools");
  const Json* choice = fields.Find("tool_choice");
  const Json* kind = is_anthropic && choice != nullptr ? choice->Find("type") : choice;
  if (IsText(kind, "none")) return tools;
  if (list != nullptr) tools.callable = ReadToolList(*list, style, fields);
  if (!fields.ok()) return tools;
  if (!tools.callable.empty()) tools.shown = NestedTools(*list, style);
  if (is_anthropic) {
    ReadAnthropicChoice(choice, fields, &tools);
  } else {
    tools.is_parallel = fields.GetBool("parallel_tool_calls", true);
    ReadChoice(choice, style, fields, &tools);
  }
  return tools;
}

}  // namespace aril::gateway

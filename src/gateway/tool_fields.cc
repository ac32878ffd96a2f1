#include "gateway/tool_fields.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "grammar/schema_keywords.h"

namespace aril::gateway {
namespace {

using Tool = grammar::ToolCallFormat::Tool;

// What says more of a function than that it is one; null if there is no such object.
const Json* BodyOf(const Json& value, ToolStyle style) {
  if (!IsText(value.Find("type"), "function")) return nullptr;
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

// The schema without what the grammar has no use for; the template gets the whole one.
Json ReadParameters(const Json& schema, JsonFields& function) {
  const Json* type = schema.Find("type");
  const bool names_other =
      type != nullptr && type->AsString() != nullptr && !IsText(type, "object");
  if (schema.AsObject() == nullptr || names_other) {
    function.Fail("parameters", "must be a JSON Schema of the type \"object\"");
  }
  return grammar::WithoutAnnotations(schema);
}

Tool ReadTool(const std::string& where, const Json& value, ToolStyle style, JsonFields& fields) {
  const bool is_flat = style == ToolStyle::kFlat;
  const Json* body = BodyOf(value, style);
  if (body == nullptr) {
    fields.Fail(where, StrCat("must be an object whose type is \"function\", with a ",
                              is_flat ? "`name`: tools that a server runs itself are not supported"
                                      : "`function`"));
    return {};
  }
  JsonFields function(*body, where + (is_flat ? "." : ".function."));
  Tool tool = {.name = function.GetString("name", ""), .parameters = {}};
  if (!grammar::IsToolName(tool.name)) {
    function.Fail("name", StrCat("is required, and has 1 to ", grammar::kMaxToolNameBytes,
                                 " of the characters a-z A-Z 0-9, `_`, `-` and `.`"));
  }
  function.GetString("description", "");
  tool.is_strict = function.GetBool("strict", false);
  const Json* parameters = function.Find("parameters");
  tool.parameters = parameters == nullptr ? NoParameters() : ReadParameters(*parameters, function);
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
      fields.Fail(where + (style == ToolStyle::kFlat ? ".name" : ".function.name"),
                  "is that of another tool, too");
    }
  }
  return tools;
}

// Templates know the nested style. OpenAI's library sends all members, those that say nothing as
// null.
Json NestedTools(const Json& list) {
  Json::Array nested;
  for (const Json& tool : *list.AsArray()) {
    Json::Object function = *tool.AsObject();
    std::erase_if(function, [](const auto& member) {
      return member.first == "type" || member.second.is_null();
    });
    nested.push_back(Json::Object{{"type", "function"}, {"function", std::move(function)}});
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

}  // namespace

ToolFields ReadTools(JsonFields& fields, ToolStyle style) {
  ToolFields tools;
  const Json* list = fields.Find("tools");
  const Json* choice = fields.Find("tool_choice");
  if (IsText(choice, "none")) return tools;
  if (list != nullptr) tools.callable = ReadToolList(*list, style, fields);
  if (!fields.ok()) return tools;
  if (!tools.callable.empty()) {
    tools.shown = style == ToolStyle::kFlat ? NestedTools(*list) : *list;
  }
  tools.is_parallel = fields.GetBool("parallel_tool_calls", true);
  ReadChoice(choice, style, fields, &tools);
  return tools;
}

}  // namespace aril::gateway

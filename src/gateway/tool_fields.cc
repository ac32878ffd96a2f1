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

// {"type": "function", "function": {"name": …}}, as elements of `tools` and of allowed_tools are.
std::string NamedFunction(const Json& value) {
  if (!IsText(value.Find("type"), "function")) return "";
  const Json* function = value.Find("function");
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

Tool ReadTool(const std::string& where, const Json& value, JsonFields& fields) {
  const Json* body = value.Find("function");
  if (!IsText(value.Find("type"), "function") || body == nullptr || body->AsObject() == nullptr) {
    fields.Fail(where, "must be an object whose type is \"function\", with a `function`");
    return {};
  }
  JsonFields function(*body, where + ".function.");
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

std::vector<Tool> ReadToolList(const Json& value, JsonFields& fields) {
  const Json::Array* list = value.AsArray();
  if (list == nullptr || list->size() > grammar::kMaxTools) {
    fields.Fail("tools", StrCat("must be an array of at most ", grammar::kMaxTools, " tools"));
    return {};
  }
  std::vector<Tool> tools;
  std::set<std::string> names;
  for (const Json& item : *list) {
    const std::string where = StrCat("tools[", tools.size(), "]");
    tools.push_back(ReadTool(where, item, fields));
    if (!fields.ok()) return {};
    if (!names.insert(tools.back().name).second) {
      fields.Fail(where + ".function.name", "is that of another tool, too");
    }
  }
  return tools;
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

// {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}
void ReadAllowedTools(const Json& choice, JsonFields& fields, ToolFields* tools) {
  const Json* allowed = choice.Find("allowed_tools");
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
    names.push_back(NamedFunction(item));
    if (names.back().empty()) return fields.Fail("tool_choice", "allows what names no function");
  }
  Restrict(names, fields, tools);
}

void ReadChoice(const Json* choice, JsonFields& fields, ToolFields* tools) {
  if (choice == nullptr || IsText(choice, "auto")) return;
  if (tools->callable.empty()) return fields.Fail("tool_choice", "needs `tools`");
  if (IsText(choice, "required")) {
    tools->is_required = true;
  } else if (IsText(choice->Find("type"), "allowed_tools")) {
    ReadAllowedTools(*choice, fields, tools);
  } else if (const std::string name = NamedFunction(*choice); !name.empty()) {
    tools->is_required = tools->is_named = true;
    tools->is_parallel = false;
    Restrict({name}, fields, tools);
  } else {
    fields.Fail("tool_choice",
                "must be \"none\", \"auto\", \"required\", or an object that names a function "
                "({\"type\": \"function\", \"function\": {\"name\": …}}) or allowed tools");
  }
}

}  // namespace

ToolFields ReadTools(JsonFields& fields) {
  ToolFields tools;
  const Json* list = fields.Find("tools");
  const Json* choice = fields.Find("tool_choice");
  if (IsText(choice, "none")) return tools;
  if (list != nullptr) tools.callable = ReadToolList(*list, fields);
  if (!fields.ok()) return tools;
  if (!tools.callable.empty()) tools.shown = *list;
  tools.is_parallel = fields.GetBool("parallel_tool_calls", true);
  ReadChoice(choice, fields, &tools);
  return tools;
}

}  // namespace aril::gateway

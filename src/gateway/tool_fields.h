// What a request says of tools: `tools`, `tool_choice`, `parallel_tool_calls`, as in OpenAI's APIs,
// and the first two, as in Anthropic's (docs/api.md lists what they may be).

#ifndef ARIL_GATEWAY_TOOL_FIELDS_H_
#define ARIL_GATEWAY_TOOL_FIELDS_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "gateway/json_fields.h"
#include "grammar/tool_calls.h"

namespace aril::gateway {

// How an endpoint writes a function: {"type": "function", "function": {"name": …}} for chats,
// {"type": "function", "name": …} for responses, {"name": …, "input_schema": …} for messages.
enum class ToolStyle { kNested, kFlat, kAnthropic };

struct ToolFields {
  // For the template: the tools in nested style, with what it may know of them; or null.
  Json shown;
  // Those that may be called; none: the answer is text.
  std::vector<grammar::ToolCallFormat::Tool> callable;
  bool is_required = false;  // the answer is calls
  bool is_named = false;     // and of a tool that the request names: it does not end for its call
  bool is_parallel = true;   // of more than one, if the model wants to
};

// Errors stay in `fields`. Whether schemas can be kept to is not known yet (grammar::Loosen). With
// the choice "none" nothing else is looked at.
ToolFields ReadTools(JsonFields& fields, ToolStyle style);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TOOL_FIELDS_H_

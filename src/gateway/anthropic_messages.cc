#include "gateway/anthropic_messages.h"

#include <cstdint>
#include <string>
#include <utility>

#include "base/strings.h"
#include "gateway/anthropic_input.h"
#include "gateway/conversation.h"
#include "gateway/generation_fields.h"

namespace aril::gateway {
namespace {

constexpr RenamedField kRenamed[] = {{"input", "`messages`"},
                                     {"instructions", "`system`"},
                                     {"stop", "`stop_sequences`"},
                                     {"max_completion_tokens", "`max_tokens`"},
                                     {"max_output_tokens", "`max_tokens`"},
                                     {"reasoning_effort", "`output_config.effort`"},
                                     {"reasoning", "`thinking`, or `output_config.effort`"},
                                     {"functions", "`tools`"}};

// What has no place in the answer, or needs what Anthropic runs beside the model.
constexpr std::string_view kUnsupported[] = {"logprobs", "top_logprobs", "mcp_servers",
                                             "container"};

void RefuseOthers(JsonFields& fields) {
  RefuseRenamed(kRenamed, fields);
  for (const std::string_view name : kUnsupported) {
    if (!AsksForNothing(fields.Find(name)))
      fields.Fail(name, "is not supported here; leave it out");
  }
  if (fields.Find("parallel_tool_calls") != nullptr) {
    fields.Fail("parallel_tool_calls", "is `tool_choice.disable_parallel_tool_use` here");
  }
}

// `thinking`: whether there is to be any, and how much.
void ReadThinking(JsonFields& fields, ReasoningFields* reasoning) {
  const Json* thinking = fields.Find("thinking");
  if (thinking == nullptr) return;
  if (thinking->AsObject() == nullptr) {
    return fields.Fail("thinking", "must be an object, not " + thinking->KindName());
  }
  JsonFields inner(*thinking, "thinking.");
  const std::string type = inner.GetString("type", "");
  // Between the uses of tools alone: no template can ask for that, and at first there is none.
  const bool is_off = type == "disabled" || type == "between_tools";
  if (type != "enabled" && type != "adaptive" && !is_off) {
    inner.Fail("type", R"(must be "enabled", "adaptive", "disabled" or "between_tools")");
  }
  const auto budget = inner.FindInt("budget_tokens", 1, INT32_MAX);
  // A field that says it in other words counts more. This one is required of who asks for thinking:
  // where it cannot be kept to, it is no reason to refuse.
  if (budget && !is_off && reasoning->budget_field.empty()) {
    reasoning->max_tokens = static_cast<int32_t>(*budget);
  }
  const std::string display = inner.GetString("display", "summarized");
  if (display != "summarized" && display != "omitted") {
    inner.Fail("display", "must be \"summarized\" or \"omitted\"");
  }
  fields.Take(inner);
  reasoning->is_wanted = !is_off;
  reasoning->is_shown = reasoning->is_shown && display != "omitted";
}

// Of `output_config`, which also has the format (gateway/output_format_fields.h).
void ReadEffort(JsonFields& fields, ReasoningFields* reasoning) {
  const Json* config = fields.Find("output_config");
  if (config == nullptr) return;
  if (config->AsObject() == nullptr) {
    return fields.Fail("output_config", "must be an object, not " + config->KindName());
  }
  JsonFields inner(*config, "output_config.");
  reasoning->effort = inner.GetString("effort", "");
  fields.Take(inner);
}

ApiResult<Conversation> ReadConversation(JsonFields& fields) {
  Conversation conversation = {
      .field = "messages", .messages = {}, .may_fill_context = true, .folds_system = true};
  RefuseOthers(fields);
  conversation.tools = ReadTools(fields, ToolStyle::kAnthropic);
  conversation.reasoning = ReadReasoning(fields);
  ReadThinking(fields, &conversation.reasoning);
  ReadEffort(fields, &conversation.reasoning);
  const Json* messages = fields.Find("messages");
  if (messages == nullptr) fields.Fail("messages", "is required");
  if (!fields.ok()) return *fields.error();
  auto input = ReadAnthropicInput(*messages, fields.Find("system"));
  if (!input.ok()) return input.error();
  conversation.messages = std::move(input.value().messages);
  conversation.is_begun = input.value().is_begun;
  return conversation;
}

}  // namespace

ApiResult<CompletionRequest> ParseMessagesRequest(std::string_view body,
                                                  const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  CompletionRequest request = {.endpoint = Endpoint::kMessages};
  if (auto error = ResolveModel(fields, context, &request)) return *error;
  ReadGenerationFieldsOfOne(fields, context.model, &request);
  const auto max_tokens = ReadMaxTokens(fields, "max_tokens", 1, request);
  if (!fields.ok()) return *fields.error();
  auto conversation = ReadConversation(fields);
  if (!conversation.ok()) return conversation.error();
  conversation.value().max_tokens = max_tokens;
  if (auto error = AskFor(std::move(conversation.value()), fields, context, &request)) {
    return *error;
  }
  return request;
}

ApiResult<Json> CountMessagesTokens(std::string_view body, const RequestContext& context) {
  const auto count = CountTokens(body, context, ReadConversation);
  if (!count.ok()) return count.error();
  return Json(Json::Object{{"input_tokens", count.value()}});
}

}  // namespace aril::gateway

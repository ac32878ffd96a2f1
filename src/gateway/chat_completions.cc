#include "gateway/chat_completions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "gateway/chat_messages.h"
#include "gateway/conversation.h"
#include "gateway/generation_fields.h"
#include "gateway/prompt_tokens.h"
#include "wire/limits.h"

namespace aril::gateway {
namespace {

// OpenAI's older form of tools.
void RefuseFunctions(JsonFields& fields) {
  if (!IsEmptyList(fields.Find("functions"))) {
    fields.Fail("functions", "is not supported; use `tools`");
  }
  const Json* call = fields.Find("function_call");
  if (call != nullptr && !IsText(call, "none") && !IsText(call, "auto")) {
    fields.Fail("function_call", "is not supported; use `tool_choice`");
  }
}

void RefuseOtherModalities(JsonFields& fields) {
  if (fields.Find("audio") != nullptr) fields.Fail("audio", "is not supported");
  const Json* modalities = fields.Find("modalities");
  if (modalities == nullptr) return;
  const Json::Array* list = modalities->AsArray();
  if (list == nullptr || list->size() != 1 || !IsText(&list->front(), "text")) {
    fields.Fail("modalities", "must be [\"text\"]");
  }
}

void ReadChatLogprobs(JsonFields& fields, CompletionRequest* request) {
  request->logprobs = fields.GetBool("logprobs", false);
  const int64_t count = fields.GetInt("top_logprobs", 0, 0, wire::kMaxLogprobs);
  if (count > 0 && !request->logprobs) return fields.Fail("top_logprobs", "needs `logprobs`: true");
  if (request->logprobs) request->common.sampling.num_logprobs = static_cast<int32_t>(count);
}

std::optional<int64_t> ReadChatMaxTokens(JsonFields& fields, const CompletionRequest& request) {
  const auto legacy = ReadMaxTokens(fields, "max_tokens", 1, request);
  const auto current = ReadMaxTokens(fields, "max_completion_tokens", 1, request);
  return current ? current : legacy;
}

// OpenAI's predicted output.
ApiResult<std::string> ReadPrediction(const JsonFields& fields) {
  const Json* const prediction = fields.Find("prediction");
  if (prediction == nullptr) return std::string();
  if (prediction->AsObject() == nullptr) {
    return InvalidField("prediction",
                        StrCat("`prediction` must be an object, {\"type\": \"content\", "
                               "\"content\": \"…\"}, not ",
                               prediction->KindName(), "."));
  }
  JsonFields inner(*prediction, "prediction.");
  if (!IsText(inner.Find("type"), "content")) inner.Fail("type", "must be \"content\"");
  const Json* const content = inner.Find("content");
  if (content == nullptr) inner.Fail("content", "is required");
  if (!inner.ok()) return *inner.error();
  return TextOf(*content, "prediction.content");
}

ApiResult<Conversation> ReadConversation(JsonFields& fields) {
  Conversation conversation = {.field = "messages", .messages = {}};
  RefuseFunctions(fields);
  conversation.tools = ReadTools(fields, ToolStyle::kNested);
  conversation.reasoning = ReadReasoning(fields);
  conversation.reasoning.effort = fields.GetString("reasoning_effort", "");
  if (!fields.ok()) return *fields.error();
  const Json* messages = fields.Find("messages");
  if (messages == nullptr) return InvalidField("messages", "`messages` is required.");
  auto normalized = NormalizeMessages(*messages);
  if (!normalized.ok()) return normalized.error();
  conversation.messages = std::move(normalized.value());
  return conversation;
}

}  // namespace

ApiResult<std::vector<int32_t>> EncodeChat(JsonFields& fields, const RequestContext& context,
                                           AdapterId adapter, bool is_over) {
  auto conversation = ReadConversation(fields);
  if (!conversation.ok()) return conversation.error();
  conversation.value().is_over = is_over;
  return EncodeConversation(std::move(conversation.value()), fields, context, adapter);
}

ApiResult<CompletionRequest> ParseChatRequest(std::string_view body,
                                              const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  CompletionRequest request = {.endpoint = Endpoint::kChat};
  if (auto error = ResolveModel(fields, context, &request)) return *error;
  ReadGenerationFields(fields, context.model, &request);
  ReadChatLogprobs(fields, &request);
  const auto max_tokens = ReadChatMaxTokens(fields, request);
  RefuseOtherModalities(fields);
  if (!fields.ok()) return *fields.error();
  if (auto error = CheckNumSequences(1, request, context.limits)) return *error;
  auto prediction = ReadPrediction(fields);
  if (!prediction.ok()) return prediction.error();
  auto conversation = ReadConversation(fields);
  if (!conversation.ok()) return conversation.error();
  conversation.value().max_tokens = max_tokens;
  if (auto error = AskFor(std::move(conversation.value()), fields, context, &request)) {
    return *error;
  }
  request.common.prediction =
      EncodeHint(*request.model_text, prediction.value(),
                 std::min(request.prompts[0].max_tokens, wire::kMaxPredictionTokens));
  return request;
}

}  // namespace aril::gateway

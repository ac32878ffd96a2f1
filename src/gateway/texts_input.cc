#include "gateway/texts_input.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gateway/chat_completions.h"
#include "gateway/generation_fields.h"
#include "gateway/prompt_tokens.h"

namespace aril::gateway {
namespace {

void RefuseUnsupported(JsonFields& fields) {
  if (!AsksForNothing(fields.Find("stream"))) {
    fields.Fail("stream", "is not supported here: an answer comes as a whole");
  }
}

// Cutting a text is not done. A bound that it keeps is fine; -1 is vLLM's word for the context.
std::optional<ApiError> CheckIsWhole(int64_t num_tokens, std::optional<int64_t> max_tokens) {
  if (!max_tokens || *max_tokens == -1 || num_tokens <= *max_tokens) return std::nullopt;
  return InvalidField("truncate_prompt_tokens",
                      StrCat("A text has ", num_tokens, " tokens, and is not cut to ", *max_tokens,
                             " here: send a shorter one."));
}

std::optional<ApiError> CheckNumTexts(size_t num_texts, int64_t max_numbers) {
  if (num_texts == 0) return InvalidField("input", "`input` must not be empty.");
  const auto max_texts = std::min(kMaxTexts, static_cast<size_t>(kMaxPooledNumbers / max_numbers));
  if (num_texts <= max_texts) return std::nullopt;
  return InvalidField(
      "input", StrCat("`input` has ", num_texts, " texts, more than the ", max_texts,
                      " that one request may have for answers of ", max_numbers, " numbers each."));
}

// Of `input`.
ApiResult<std::vector<const Json*>> FindTexts(const JsonFields& fields,
                                              int64_t max_numbers_per_text) {
  const Json* input = fields.Find("input");
  if (input == nullptr) return InvalidField("input", "`input` is required.");
  std::vector<const Json*> items = PromptItems(*input);
  if (auto error = CheckNumTexts(items.size(), max_numbers_per_text)) return *error;
  return items;
}

}  // namespace

std::optional<ApiError> ReadTexts(JsonFields& fields, const RequestContext& context,
                                  int64_t max_numbers_per_text, CompletionRequest* request) {
  const ServedModel& model = context.model;
  const auto cut_to = fields.FindInt("truncate_prompt_tokens", -1, INT32_MAX);
  RefuseUnsupported(fields);
  request->common.priority = ReadPriority(fields);
  const auto add = [&](ApiResult<std::vector<int32_t>> tokens,
                       const std::string& name) -> std::optional<ApiError> {
    if (!tokens.ok()) return tokens.error();
    const auto num_tokens = std::ssize(tokens.value());
    const auto resolved = ResolveMaxTokens(num_tokens, 0, 0, model.max_model_len, name);
    if (!resolved.ok()) return resolved.error();
    if (auto error = CheckIsWhole(num_tokens, cut_to)) return error;
    request->prompts.push_back({.tokens = std::move(tokens.value())});
    return std::nullopt;
  };
  const bool is_conversation = fields.Find("messages") != nullptr;
  if (is_conversation && fields.Find("input") != nullptr) {
    fields.Fail("messages", "excludes `input`");
  }
  if (!fields.ok()) return fields.error();
  if (is_conversation) {
    return add(EncodeChat(fields, context, request->first_adapter(), /*is_over=*/true), "messages");
  }
  const bool add_special_tokens = fields.GetBool("add_special_tokens", true);
  if (!fields.ok()) return fields.error();
  const auto items = FindTexts(fields, max_numbers_per_text);
  if (!items.ok()) return items.error();
  for (const Json* item : items.value()) {
    const bool is_one_of_many = items.value().size() > 1;
    const std::string name =
        is_one_of_many ? StrCat("input[", request->prompts.size(), "]") : "input";
    // Before the next one is read: a list of long ones ends with the first that is too long.
    auto tokens = ReadPromptItem(model, *request->model_text, *item, add_special_tokens, name);
    if (auto error = add(std::move(tokens), name)) return error;
  }
  return std::nullopt;
}

}  // namespace aril::gateway

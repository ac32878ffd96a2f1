#include "gateway/completions.h"

#include <algorithm>

#include "base/strings.h"
#include "gateway/generation_fields.h"
#include "gateway/json_fields.h"
#include "gateway/output_format_fields.h"
#include "gateway/prompt_tokens.h"
#include "wire/limits.h"

namespace aril::gateway {
namespace {

// How an item of `prompt` becomes tokens.
struct PromptReader {
  const ServedModel& model;
  const ModelText& text;
  bool add_special_tokens;
  std::optional<int64_t> max_tokens;  // of which the last ones are kept
  bool echo;
  bool skip_special_tokens;

  ApiResult<CompletionPrompt> FromItem(const Json& item) const {
    auto tokens = ReadPromptItem(model, text, item, add_special_tokens, "prompt");
    if (!tokens.ok()) return tokens.error();
    CompletionPrompt prompt = {.tokens = std::move(tokens.value())};
    const bool is_cut = max_tokens && std::ssize(prompt.tokens) > *max_tokens;
    if (is_cut) KeepLast(*max_tokens, *text.tokenizer, &prompt.tokens);
    if (echo) {
      prompt.text = item.AsString() != nullptr && !is_cut
                        ? *item.AsString()
                        : text.tokenizer->Decode(prompt.tokens, skip_special_tokens);
    }
    return prompt;
  }
};

std::optional<ApiError> ReadPrompts(const JsonFields& fields, const PromptReader& reader,
                                    const CompletionLimits& limits,
                                    std::optional<int64_t> max_tokens, CompletionRequest* request) {
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) return InvalidField("prompt", "`prompt` is required.");
  const std::vector<const Json*> items = PromptItems(*prompt);
  if (items.empty()) return InvalidField("prompt", "`prompt` must not be empty.");
  if (auto error = CheckNumSequences(static_cast<int64_t>(items.size()), *request, limits)) {
    return error;
  }
  for (const Json* item : items) {
    auto read = reader.FromItem(*item);
    if (!read.ok()) return read.error();
    // Before the next one is read: a list of long ones ends with the first that is too long.
    auto resolved = ResolveMaxTokens(static_cast<int64_t>(read.value().tokens.size()), max_tokens,
                                     kDefaultMaxTokens, reader.model.max_model_len, "prompt");
    if (!resolved.ok()) return resolved.error();
    read.value().max_tokens = resolved.value();
    request->prompts.push_back(std::move(read.value()));
  }
  return std::nullopt;
}

// The candidates are compared by their logprobs, which the answer shows only on request.
void ReadBestOf(JsonFields& fields, CompletionRequest* request) {
  const auto best_of = fields.FindInt("best_of", 1, INT32_MAX);
  if (!best_of) return;
  if (*best_of < request->n) return fields.Fail("best_of", "must not be less than `n`");
  if (*best_of > request->n && request->stream) {
    return fields.Fail("best_of", "must be equal to `n` in a stream");
  }
  request->best_of = static_cast<int32_t>(*best_of);
  if (request->best_of > request->n && !request->logprobs) {
    request->common.sampling.num_logprobs = 0;
  }
}

// What only this endpoint has.
void ReadOwnFields(JsonFields& fields, CompletionRequest* request) {
  request->echo = fields.GetBool("echo", false);
  if (const auto count = fields.FindInt("logprobs", 0, wire::kMaxLogprobs)) {
    request->logprobs = true;
    request->common.sampling.num_logprobs = static_cast<int32_t>(*count);
    request->common.sampling.prompt_logprobs = request->echo;
  }
  ReadBestOf(fields, request);
  if (!fields.GetString("suffix", "").empty()) {
    fields.Fail("suffix", "is not supported: this server does not fill in text");
  }
}

}  // namespace

ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                    const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  CompletionRequest request;
  if (auto error = ResolveModel(fields, context, &request)) return *error;
  ReadGenerationFields(fields, context.model, &request);
  ReadOwnFields(fields, &request);
  const auto max_tokens = ReadMaxTokens(fields, "max_tokens", request.echo ? 0 : 1, request);
  const auto max_prompt_tokens =
      ReadMaxPromptTokens(fields, context.model.max_model_len, max_tokens);
  const bool add_special_tokens = fields.GetBool("add_special_tokens", true);
  if (fields.ok()) {
    CheckOutputFormat(request.format_field, request.common.format, context.model,
                      *request.model_text, fields);
  }
  if (!fields.ok()) return *fields.error();

  const PromptReader reader = {.model = context.model,
                               .text = *request.model_text,
                               .add_special_tokens = add_special_tokens,
                               .max_tokens = max_prompt_tokens,
                               .echo = request.echo,
                               .skip_special_tokens = request.skip_special_tokens};
  if (auto error = ReadPrompts(fields, reader, context.limits, max_tokens, &request)) {
    return *error;
  }
  if (auto error = CheckNumLogprobs(request)) return *error;
  return request;
}

}  // namespace aril::gateway

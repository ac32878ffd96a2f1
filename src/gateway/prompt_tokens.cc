#include "gateway/prompt_tokens.h"

#include <algorithm>

#include "base/strings.h"
#include "base/utf8.h"

namespace aril::gateway {
namespace {

// More than texts have on average.
constexpr int64_t kHintBytesPerToken = 16;

// Agents shorten a conversation where an error says that its "prompt is too long", as Anthropic's
// do, or speaks of the "maximum context length", as OpenAI's.
ApiError TooLong(const std::string& param, int64_t max_model_len, const std::string& why) {
  ApiError error = InvalidField(param, StrCat("This model's maximum context length is ",
                                              max_model_len, " tokens. However, ", why));
  error.code = "context_length_exceeded";
  return error;
}

}  // namespace

ApiResult<std::vector<int32_t>> EncodeText(const ServedModel& model, const ModelText& model_text,
                                           std::string_view text, bool add_special_tokens,
                                           const std::string& param) {
  if (static_cast<int64_t>(text.size()) / kMaxBytesPerToken >= model.max_model_len) {
    return TooLong(param, model.max_model_len,
                   StrCat("your prompt is too long: ", text.size(), " bytes, which cannot fit."));
  }
  std::vector<int32_t> tokens = model_text.tokenizer->Encode(
      text, {.add_special_tokens = add_special_tokens, .parse_special_tokens = true});
  // A tokenizer may know tokens that the model has no embedding for.
  for (const int32_t id : tokens) {
    if (id < 0 || id >= model_text.vocab_size) {
      return InvalidField(param, StrCat("`", param, "` holds token ", id, ", which the model (",
                                        model_text.vocab_size, " tokens) does not have."));
    }
  }
  return tokens;
}

std::vector<const Json*> PromptItems(const Json& prompts) {
  const Json::Array* array = prompts.AsArray();
  if (array == nullptr) return {&prompts};
  if (!array->empty() && array->front().AsInt() != nullptr) return {&prompts};
  std::vector<const Json*> items;
  for (const Json& item : *array) items.push_back(&item);
  return items;
}

ApiResult<std::vector<int32_t>> ReadPromptItem(const ServedModel& model,
                                               const ModelText& model_text, const Json& item,
                                               bool add_special_tokens, const std::string& param) {
  ApiResult<std::vector<int32_t>> tokens = InvalidField(
      param, StrCat("`", param,
                    "` must be a string, an array of token ids, an array of strings, or an array "
                    "of arrays of token ids."));
  if (const std::string* text = item.AsString()) {
    tokens = EncodeText(model, model_text, *text, add_special_tokens, param);
  } else if (const Json::Array* ids = item.AsArray()) {
    tokens = ReadTokenIds(model_text, *ids, param);
  }
  if (tokens.ok() && tokens.value().empty()) {
    return InvalidField(param, StrCat("`", param, "` must have at least one token."));
  }
  return tokens;
}

std::vector<int32_t> EncodeHint(const ModelText& model_text, std::string_view text,
                                int64_t max_tokens) {
  text = text.substr(0, static_cast<size_t>(max_tokens * kHintBytesPerToken));
  text.remove_suffix(TruncatedTailBytes(text));
  std::vector<int32_t> tokens = model_text.tokenizer->Encode(
      text, {.add_special_tokens = false, .parse_special_tokens = true});
  const auto lacking = std::ranges::find_if(
      tokens, [&](int32_t id) { return id < 0 || id >= model_text.vocab_size; });
  const auto num_tokens = std::min<int64_t>(lacking - tokens.begin(), max_tokens);
  tokens.resize(static_cast<size_t>(num_tokens));
  return tokens;
}

ApiResult<std::vector<int32_t>> ReadTokenIds(const ModelText& model_text, const Json::Array& array,
                                             const std::string& param) {
  const auto max_id = static_cast<int32_t>(model_text.vocab_size - 1);
  auto ids = ReadIntArray(array, 0, max_id);
  if (ids) return *std::move(ids);
  return InvalidField(param,
                      StrCat("`", param, "` must hold token ids between 0 and ", max_id, "."));
}

std::optional<int64_t> ReadMaxPromptTokens(JsonFields& fields, int64_t max_model_len,
                                           std::optional<int64_t> max_tokens) {
  constexpr const char* kName = "truncate_prompt_tokens";
  const auto truncation = fields.FindInt(kName, -1, INT32_MAX);
  if (!truncation || *truncation > 0) return truncation;
  if (*truncation == 0) fields.Fail(kName, "must be at least 1, or -1 for what the context leaves");
  return std::max<int64_t>(1, max_model_len - max_tokens.value_or(kDefaultMaxTokens));
}

void KeepLast(int64_t max_tokens, const Tokenizer& tokenizer, std::vector<int32_t>* tokens) {
  const int64_t num_dropped = std::ssize(*tokens) - max_tokens;
  if (num_dropped <= 0) return;
  const bool keeps_first = max_tokens > 1 && tokens->front() == tokenizer.bos_token_id();
  const auto first = tokens->begin() + (keeps_first ? 1 : 0);
  tokens->erase(first, first + num_dropped);
}

ApiResult<int32_t> ResolveMaxTokens(int64_t num_prompt_tokens, std::optional<int64_t> wanted,
                                    int64_t fallback, int64_t max_model_len,
                                    const std::string& param) {
  const int64_t room = max_model_len - num_prompt_tokens;
  const int64_t max_tokens = wanted.value_or(std::clamp<int64_t>(room, 1, fallback));
  if (max_tokens <= room) return static_cast<int32_t>(max_tokens);
  const int64_t max_prompt = max_model_len - std::min<int64_t>(1, max_tokens);
  if (num_prompt_tokens > max_prompt) {
    return TooLong(param, max_model_len,
                   StrCat("your prompt is too long: ", num_prompt_tokens, " tokens > ", max_prompt,
                          " maximum. Please reduce its length."));
  }
  return TooLong(param, max_model_len,
                 StrCat("you requested ", num_prompt_tokens + max_tokens, " tokens (",
                        num_prompt_tokens, " in the prompt, ", max_tokens,
                        " in the completion). Please reduce the length of the prompt or of the "
                        "completion."));
}

}  // namespace aril::gateway

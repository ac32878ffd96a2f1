// Texts and token ids of requests, checked against the model and its context.

#ifndef ARIL_GATEWAY_PROMPT_TOKENS_H_
#define ARIL_GATEWAY_PROMPT_TOKENS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "gateway/api_error.h"
#include "gateway/json_fields.h"
#include "gateway/served_model.h"
#include "tokenizer/tokenizer.h"

namespace aril::gateway {

// No tokenizer in use makes longer tokens (Llama 3 has one of 128 spaces).
inline constexpr int64_t kMaxBytesPerToken = 128;

// The tokens of a text. 400 for `param` if the text is so long that no tokenizer could make it fit
// (tokenizing it would take time from others to no end), or holds a token that the model lacks.
// Thread-safe, as all functions here.
ApiResult<std::vector<int32_t>> EncodeText(const ServedModel& model, const ModelText& model_text,
                                           std::string_view text, bool add_special_tokens,
                                           const std::string& param);

// What a field holds that is a prompt or several: a text or an array of token ids each. Empty if it
// is an empty array. `prompts` must outlive the result.
std::vector<const Json*> PromptItems(const Json& prompts);

// The tokens of one of them, at least one; errors as above and below.
ApiResult<std::vector<int32_t>> ReadPromptItem(const ServedModel& model,
                                               const ModelText& model_text, const Json& item,
                                               bool add_special_tokens, const std::string& param);

// The first tokens of a text, at most so many: of what helps only, so that the rest may be missing,
// and whatever is behind a token that the model lacks.
std::vector<int32_t> EncodeHint(const ModelText& model_text, std::string_view text,
                                int64_t max_tokens);

// An array of token ids that the model has, or 400 for `param`.
ApiResult<std::vector<int32_t>> ReadTokenIds(const ModelText& model_text, const Json::Array& array,
                                             const std::string& param);

// Of a completion that nothing else says the length of.
inline constexpr int64_t kDefaultMaxTokens = 16;

// How many tokens a prompt may have by `truncate_prompt_tokens`, vLLM's field; nothing: there is no
// such. -1 is as many as the context leaves beside `max_tokens`, or beside kDefaultMaxTokens.
std::optional<int64_t> ReadMaxPromptTokens(JsonFields& fields, int64_t max_model_len,
                                           std::optional<int64_t> max_tokens);

// Leaves so many: the last ones, behind the token that begins texts, if the first one is that.
void KeepLast(int64_t max_tokens, const Tokenizer& tokenizer, std::vector<int32_t>* tokens);

// How many tokens a completion may have: `wanted`, or without it `fallback` or as many as fit. 400
// for `param` if prompt and completion together exceed the context.
ApiResult<int32_t> ResolveMaxTokens(int64_t num_prompt_tokens, std::optional<int64_t> wanted,
                                    int64_t fallback, int64_t max_model_len,
                                    const std::string& param);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_PROMPT_TOKENS_H_

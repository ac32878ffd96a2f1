// How a token is chosen, and what is reported about the choice. Used as it is from the HTTP request
// to the sampling kernel.

#ifndef ARIL_WIRE_SAMPLING_H_
#define ARIL_WIRE_SAMPLING_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace aril::wire {

// How the next token is chosen. Applied in this order: logit_bias, penalties, masks (bad words,
// tokens that are not allowed, stop tokens before min_tokens), temperature, top_k, top_p, min_p,
// draw. Values are validated by the gateway.
struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;                         // over prompt and output
  float presence_penalty = 0.0f;                           // over output
  float frequency_penalty = 0.0f;                          // over output
  std::vector<std::pair<int32_t, float>> logit_bias = {};  // (token, added to its logit)
  // The only tokens that may be chosen, in rising order, each once; empty: all.
  std::vector<int32_t> allowed_token_ids = {};
  // None of which the output is to have: the last token of one is not chosen behind the others.
  std::vector<std::vector<int32_t>> bad_words = {};
  uint64_t seed = 0;  // the gateway draws one where the client gave none
  // Number of most likely alternatives to report with each token; nullopt: no logprobs at all.
  std::optional<int32_t> num_logprobs = std::nullopt;
  // Also report logprobs of the prompt's tokens (num_logprobs must be set).
  bool prompt_logprobs = false;

  bool operator==(const SamplingParams&) const = default;
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

// The logprob of one token and the most likely alternatives, best first. Natural logarithm, of the
// model's distribution before any sampling parameter.
struct Logprobs {
  float logprob = 0;
  int32_t rank = 0;  // 1: the most likely token
  std::vector<TokenLogprob> top = {};
};

}  // namespace aril::wire

#endif  // ARIL_WIRE_SAMPLING_H_

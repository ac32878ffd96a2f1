#include "kernels/sampling/penalties.h"

#include <algorithm>
#include <limits>

namespace aril::kernels {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool InVocabulary(int32_t token, std::span<const float> logits) {
  return token >= 0 && static_cast<size_t>(token) < logits.size();
}

bool HasPenalties(const wire::SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

// `count` is how often the token occurs in the output; it occurs there or in the prompt.
float Penalize(float logit, int32_t count, const wire::SamplingParams& params) {
  const float penalty = params.repetition_penalty;
  if (penalty != 1.0f) logit = logit > 0 ? logit / penalty : logit * penalty;
  if (count == 0) return logit;
  return logit - params.presence_penalty - params.frequency_penalty * static_cast<float>(count);
}

void ApplyPenalties(const SampleInput& input, std::span<float> logits,
                    std::vector<int32_t>* counts) {
  counts->assign(logits.size(), 0);
  for (const int32_t token : input.output) {
    if (InVocabulary(token, logits)) ++(*counts)[static_cast<size_t>(token)];
  }
  // A token is penalized where it is met first; -1 says that this was done.
  for (const std::span<const int32_t> tokens : {input.output, input.prompt}) {
    for (const int32_t token : tokens) {
      if (!InVocabulary(token, logits)) continue;
      const auto i = static_cast<size_t>(token);
      int32_t& count = (*counts)[i];
      if (count < 0) continue;
      logits[i] = Penalize(logits[i], count, *input.params);
      count = -1;
    }
  }
}

void MaskBadWords(const SampleInput& input, std::span<float> logits) {
  for (const std::vector<int32_t>& word : input.params->bad_words) {
    const auto before = std::span(word).first(word.size() - 1);
    const bool may_complete = before.size() <= input.output.size() &&
                              std::ranges::equal(before, input.output.last(before.size())) &&
                              InVocabulary(word.back(), logits);
    if (may_complete) logits[static_cast<size_t>(word.back())] = kNever;
  }
}

// `tokens` rise; empty: none is masked.
void MaskAllBut(std::span<const int32_t> tokens, std::span<float> logits) {
  if (tokens.empty()) return;
  size_t next = 0;
  for (size_t t = 0; t < logits.size(); ++t) {
    if (next < tokens.size() && static_cast<size_t>(tokens[next]) == t) {
      ++next;
    } else {
      logits[t] = kNever;
    }
  }
}

}  // namespace

bool HasBiasOrPenalties(const wire::SamplingParams& params) {
  return !params.logit_bias.empty() || HasPenalties(params);
}

void ApplyBiasAndPenalties(const SampleInput& input, std::span<float> logits,
                           std::vector<int32_t>* counts) {
  for (const auto& [token, bias] : input.params->logit_bias) {
    if (InVocabulary(token, logits)) logits[static_cast<size_t>(token)] += bias;
  }
  if (HasPenalties(*input.params)) ApplyPenalties(input, logits, counts);
}

bool HasMasks(const SampleInput& input) {
  return !input.masked.empty() || !input.allowed.empty() ||
         !input.params->allowed_token_ids.empty() || !input.params->bad_words.empty();
}

void MaskTokens(const SampleInput& input, std::span<float> logits) {
  MaskBadWords(input, logits);
  MaskAllBut(input.params->allowed_token_ids, logits);
  for (const int32_t token : input.masked) {
    if (InVocabulary(token, logits)) logits[static_cast<size_t>(token)] = kNever;
  }
  if (input.allowed.empty()) return;
  for (size_t t = 0; t < logits.size(); ++t) {
    const bool is_allowed =
        t / 64 < input.allowed.size() && (input.allowed[t / 64] >> (t % 64) & 1) != 0;
    if (!is_allowed) logits[t] = kNever;
  }
}

}  // namespace aril::kernels

// What happens to logits before a token is chosen: bias, penalties, masks.

#ifndef ARIL_KERNELS_SAMPLING_PENALTIES_H_
#define ARIL_KERNELS_SAMPLING_PENALTIES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling/sampling.h"

namespace aril::kernels {

// True if the parameters change any logit; masks do not count.
bool HasBiasOrPenalties(const wire::SamplingParams& params);

// Adds logit_bias, then applies the repetition, presence and frequency penalties. `logits` is the
// input's row, to be changed; `*counts` is working memory. Linear in vocabulary, prompt and output.
void ApplyBiasAndPenalties(const SampleInput& input, std::span<float> logits,
                           std::vector<int32_t>* counts);

// True if some tokens must not be chosen, here or behind other tokens.
bool HasMasks(const SampleInput& input);

// Sets the logits of the masked tokens, of those that would complete a bad word, and of those that
// are not allowed, to -inf.
void MaskTokens(const SampleInput& input, std::span<float> logits);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_SAMPLING_PENALTIES_H_

// Choosing the next token from one row of logits.
//
// Semantics, in this order (wire/sampling.h has the parameters):
//   1. logit_bias is added; 2. repetition penalty (logit /= p if > 0, else *= p) for every
//   different token of prompt and output; 3. presence and frequency penalties over the output; 4.
//   masked tokens, the last ones of bad words whose others are before them, and those that are not
//   allowed become -inf;
//   5. temperature 0: the largest logit, the lowest id on a tie; else logits / temperature; 6. the
//   top_k largest (ties: lowest ids first); 7. top_p: the shortest prefix, in order of falling
//   probability (ties: lowest ids first), whose probabilities, normalized over what top_k left, sum
//   to at least top_p; 8. min_p: probability ≥ min_p × the largest; 9. one draw: the first of the
//   tokens left, in order of ids, whose cumulative probability exceeds u.
// u is a pure function of (seed, choice, position) by a counter-based generator (Philox 4x32-10:
// Salmon et al., SC 2011), so that a token does not depend on its batch, its chunking or a
// migration. Nothing here sorts a vocabulary: every step is linear in it.

#ifndef ARIL_KERNELS_SAMPLING_SAMPLING_H_
#define ARIL_KERNELS_SAMPLING_SAMPLING_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/sampling/sampling_cuda.h"
#include "kernels/sampling/selection.h"
#include "kernels/sampling/weights.h"
#include "wire/sampling.h"

namespace aril::kernels {

struct SampleInput {
  std::span<const float> logits = {};  // [vocab_size], not modified
  const wire::SamplingParams* params = nullptr;
  std::span<const int32_t> prompt = {};  // the sequence so far, for the penalties
  std::span<const int32_t> output = {};
  // What is chosen, whatever is likely and whatever the parameters say: no token, most of the time.
  std::optional<int32_t> forced = std::nullopt;
  // Tokens that must not be chosen (stop tokens before min_tokens).
  std::span<const int32_t> masked = {};
  // The tokens that may be chosen: bit t % 64 of word t / 64 is token t's. Empty: all.
  std::span<const uint64_t> allowed = {};
  int32_t choice = 0;
  int64_t position = 0;  // of the token to choose, from 0 at the start of the prompt
};

struct SampleResult {
  int32_t token = 0;
  std::optional<wire::Logprobs> logprobs = std::nullopt;  // if params->num_logprobs
};

// Working memory, reused from row to row; one per thread.
struct SamplingScratch {
  std::vector<float> logits;    // after bias, penalties and masks
  std::vector<int32_t> counts;  // of each token in the output
  std::vector<Candidate> candidates;
  std::vector<Candidate> reordered;
  WeightTable weights;
};

// Whether a device can choose the token by itself (sampling_cuda.h): nothing changes the logits,
// and nothing is reported about them. Then: how, of the first `vocab_size` logits, and what it
// chose.
bool DeviceCanChoose(const SampleInput& input);
SampleRow DescribeForDevice(const SampleInput& input, int64_t vocab_size);
StatusOr<SampleResult> TakeFromDevice(int32_t token, int64_t position);

// Token ids in params, prompt, output and masked (not `forced`) that lie outside the vocabulary are
// ignored. Internal if no token can be chosen: a NaN or +inf among the logits (before or after
// penalties), or all of them -inf; InvalidArgument if the masks leave none. Thread-safe with a
// scratch per thread.
StatusOr<SampleResult> Sample(const SampleInput& input, SamplingScratch& scratch);

// u of step 9, in [0, 1): the upper 53 bits of the first two words of Philox under the key `seed`
// (low word first) and the counter (position low, position high, choice, 0).
double UniformDraw(uint64_t seed, int32_t choice, int64_t position);

// log softmax(logits)[token], its rank, and the `num_top` most likely tokens, all of them if there
// are fewer (ties: lowest ids first; the rank follows the same order). In double precision with a
// fixed order of additions. Tokens at -inf are not listed; a row with a NaN or +inf yields NaN.
wire::Logprobs ComputeLogprobs(std::span<const float> logits, int32_t token, int32_t num_top);

// Philox 4x32-10 of a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_SAMPLING_SAMPLING_H_

#include "kernels/sampling/sampling.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "kernels/sampling/penalties.h"

namespace aril::kernels {
namespace {

// The first token in falling order. One comparison per logit finds NaN and +inf as well: neither is
// less than or equal to a finite number.
StatusOr<Candidate> Largest(std::span<const float> logits, int64_t position) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Candidate best{.token = -1, .logit = -kInfinity, .weight = 1};
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] <= best.logit) continue;
    if (!(logits[i] < kInfinity)) {
      return Internal(StrCat("no token can be chosen at position ", position,
                             ": the logit of token ", i, " is ", logits[i],
                             ", expected a finite number or -inf"));
    }
    best.token = static_cast<int32_t>(i);
    best.logit = logits[i];
  }
  if (best.token < 0) {
    return Internal(StrCat("no token can be chosen at position ", position, ": all ", logits.size(),
                           " tokens of the vocabulary have a logit of -inf"));
  }
  return best;
}

// Steps 1 to 4; also the largest of the logits that result, which are the input's own row or the
// scratch's.
StatusOr<Candidate> PrepareLogits(const SampleInput& input, SamplingScratch& scratch,
                                  std::span<const float>* logits) {
  *logits = input.logits;
  const bool adjusts = HasBiasOrPenalties(*input.params);
  const bool masks = HasMasks(input);
  if (!adjusts && !masks) return Largest(*logits, input.position);
  scratch.logits.assign(input.logits.begin(), input.logits.end());
  *logits = scratch.logits;
  if (adjusts) ApplyBiasAndPenalties(input, scratch.logits, &scratch.counts);
  // Looked at before masking, too: a mask must not hide a NaN, which tells of a broken model.
  auto largest = Largest(*logits, input.position);
  if (!largest.ok() || !masks) return largest;
  MaskTokens(input, scratch.logits);
  largest = Largest(*logits, input.position);
  if (largest.ok()) return largest;
  return InvalidArgument(StrCat("no token can be chosen at position ", input.position,
                                ": what is asked of the output (its format, the tokens that it "
                                "may have, bad words, or stop tokens that min_tokens rules out) "
                                "leaves none of the ",
                                logits->size(), " tokens of the vocabulary"));
}

bool UsesTopK(const wire::SamplingParams& params, size_t vocab_size) {
  return params.top_k > 0 && static_cast<size_t>(params.top_k) < vocab_size;
}

// Step 6. Sets the candidates, in order of ids, and returns the sum of their weights.
double TakeTopK(const wire::SamplingParams& params, std::span<const float> logits, float largest,
                std::vector<Candidate>* candidates) {
  SelectLargest(logits, params.top_k, candidates);
  double total = 0;
  for (Candidate& candidate : *candidates) {
    candidate.weight = Weight(candidate.logit, largest, params.temperature);
    total += candidate.weight;
  }
  return total;
}

// A weight such that the tokens with at least this weight reach top_p together, and are few: it
// spares the exact search most of a large vocabulary.
float TopPFloor(float top_p, const WeightTable& table) {
  constexpr float kLowest = 1e-7f;
  for (float floor = 1.0f / 16; floor > kLowest; floor /= 16) {
    if (table.SumAtLeast(floor) >= top_p * table.total()) return floor;
  }
  return 0;
}

// Sets the candidates, in order of ids, to all tokens that top_p and min_p may leave.
void TakeProbable(const wire::SamplingParams& params, std::span<const float> logits,
                  const WeightTable& table, std::vector<Candidate>* candidates) {
  float floor = std::min(params.min_p, 1.0f);
  if (params.top_p < 1) floor = std::max(floor, TopPFloor(params.top_p, table));
  candidates->clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const float weight = table.weights()[i];
    if (weight >= floor) candidates->push_back({static_cast<int32_t>(i), logits[i], weight});
  }
}

// Step 7. min_p may have cut the candidates already: both cut the tail of one order, and the target
// of top_p is a part of the total from before, so that either may go first.
void CutToTopP(double target, SamplingScratch& scratch) {
  scratch.reordered = scratch.candidates;
  const Candidate last = PrefixEnd(scratch.reordered, target);
  std::erase_if(scratch.candidates, [&](const Candidate& c) { return Before(last, c); });
}

// Step 8. The largest weight is 1.
void CutToMinP(float min_p, std::vector<Candidate>* candidates) {
  const float floor = std::min(min_p, 1.0f);
  std::erase_if(*candidates, [&](const Candidate& c) { return c.weight < floor; });
}

// Step 9, `candidates` in order of ids.
int32_t Draw(std::span<const Candidate> candidates, double u) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  const double target = u * total;
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += candidate.weight;
    if (sum > target) return candidate.token;
  }
  return candidates.back().token;  // not reached: u < 1, and the sum ends as the same total
}

// Steps 5 to 9, temperature > 0.
int32_t SampleToken(const SampleInput& input, std::span<const float> logits, float largest,
                    SamplingScratch& scratch) {
  const wire::SamplingParams& params = *input.params;
  const double u = UniformDraw(params.seed, input.choice, input.position);
  double total;
  if (UsesTopK(params, logits.size())) {
    total = TakeTopK(params, logits, largest, &scratch.candidates);
  } else {
    scratch.weights.Assign(logits, largest, params.temperature);
    total = scratch.weights.total();
    if (params.top_p >= 1 && params.min_p <= 0) return scratch.weights.Find(u * total);
    TakeProbable(params, logits, scratch.weights, &scratch.candidates);
  }
  if (params.top_p < 1) CutToTopP(params.top_p * total, scratch);
  if (params.min_p > 0) CutToMinP(params.min_p, &scratch.candidates);
  return Draw(scratch.candidates, u);
}

StatusOr<int32_t> ChooseToken(const SampleInput& input, SamplingScratch& scratch) {
  if (input.forced) {
    RETURN_IF_ERROR(Largest(input.logits, input.position).status());
    return *input.forced;
  }
  std::span<const float> logits;
  ASSIGN_OR_RETURN(const Candidate largest, PrepareLogits(input, scratch, &logits));
  return input.params->temperature == 0 ? largest.token
                                        : SampleToken(input, logits, largest.logit, scratch);
}

}  // namespace

double UniformDraw(uint64_t seed, int32_t choice, int64_t position) {
  const auto words = Philox({static_cast<uint32_t>(position),
                             static_cast<uint32_t>(static_cast<uint64_t>(position) >> 32),
                             static_cast<uint32_t>(choice), 0},
                            {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

bool DeviceCanChoose(const SampleInput& input) {
  const wire::SamplingParams& params = *input.params;
  return !params.num_logprobs && !input.forced && !HasMasks(input) && !HasBiasOrPenalties(params);
}

SampleRow DescribeForDevice(const SampleInput& input, int64_t vocab_size) {
  const wire::SamplingParams& params = *input.params;
  return {.vocab = static_cast<int32_t>(vocab_size),
          .temperature = params.temperature,
          .top_k = params.top_k,
          .top_p = params.top_p,
          .min_p = params.min_p,
          .u = UniformDraw(params.seed, input.choice, input.position)};
}

StatusOr<SampleResult> TakeFromDevice(int32_t token, int64_t position) {
  if (token >= 0) return SampleResult{.token = token};
  return Internal(StrCat("no token can be chosen at position ", position, ": ",
                         token == kTokenOfNone
                             ? "all tokens of the vocabulary have a logit of -inf"
                             : "a logit is NaN or +inf, expected finite numbers or -inf"));
}

StatusOr<SampleResult> Sample(const SampleInput& input, SamplingScratch& scratch) {
  const wire::SamplingParams& params = *input.params;
  SampleResult result;
  ASSIGN_OR_RETURN(result.token, ChooseToken(input, scratch));
  if (params.num_logprobs) {
    result.logprobs = ComputeLogprobs(input.logits, result.token, *params.num_logprobs);
  }
  return result;
}

}  // namespace aril::kernels

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/sampling/sampling.h"

namespace aril::kernels {
namespace {

// log(sum of exp(logits)), in order of ids.
double LogSumExp(std::span<const float> logits) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) largest = std::max(largest, logit);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - largest);
  return largest + std::log(sum);
}

// 1 + the number of tokens before `token` in falling order.
int32_t Rank(std::span<const float> logits, int32_t token) {
  const auto index = static_cast<size_t>(token);
  const float own = logits[index];
  int32_t rank = 1;
  for (const float logit : logits) rank += logit > own ? 1 : 0;
  for (const float logit : logits.first(index)) rank += logit == own ? 1 : 0;
  return rank;
}

}  // namespace

wire::Logprobs ComputeLogprobs(std::span<const float> logits, int32_t token, int32_t num_top) {
  CHECK_GE(token, 0);
  CHECK_LT(static_cast<size_t>(token), logits.size());
  const double log_sum = LogSumExp(logits);
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
  wire::Logprobs result{.logprob = logprob(logits[static_cast<size_t>(token)]),
                        .rank = Rank(logits, token)};
  if (num_top <= 0) return result;
  std::vector<Candidate> best;
  SelectLargest(logits, num_top, &best);
  std::sort(best.begin(), best.end(), Before);
  for (const Candidate& candidate : best) {
    result.top.push_back({.token = candidate.token, .logprob = logprob(candidate.logit)});
  }
  return result;
}

}  // namespace aril::kernels

#include "support/distributions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "support/engine_fixture.h"

namespace aril {
namespace {

std::vector<double> Softmax(const std::vector<float>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const float logit : logits) p.push_back(std::exp(logit - largest));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

// Σ p ln(p / q), in nats.
double Divergence(const std::vector<float>& p_logits, const std::vector<float>& q_logits) {
  const std::vector<double> p = Softmax(p_logits), q = Softmax(q_logits);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) sum += p[i] * std::log(p[i] / std::max(q[i], 1e-300));
  }
  return sum;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Comparison& c) {
  return out << "mean divergence " << c.divergence << " nats, same likeliest token " << c.agreement
             << " of " << c.positions;
}

Logits LogitsOf(Engine& engine, const Texts& texts, const AdapterMix& adapters) {
  Logits logits;
  for (const std::vector<int32_t>& text : texts) {
    std::vector<int64_t> all(text.size());
    std::iota(all.begin(), all.end(), 0);
    for (auto& of_position : TeacherForcedLogits(engine, text, all, adapters)) {
      logits.push_back(std::move(of_position));
    }
  }
  return logits;
}

Comparison Compare(const Logits& expected, const Logits& actual) {
  const auto best = [](const std::vector<float>& v) {
    return std::max_element(v.begin(), v.end()) - v.begin();
  };
  Comparison sum;
  for (size_t i = 0; i < expected.size(); ++i) {
    sum.divergence += Divergence(expected[i], actual[i]);
    sum.agreement += best(expected[i]) == best(actual[i]) ? 1 : 0;
    ++sum.positions;
  }
  const auto count = static_cast<double>(sum.positions);
  return {sum.divergence / count, sum.agreement / count, sum.positions};
}

}  // namespace aril

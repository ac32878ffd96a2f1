// How far weights of 8 bits move a real model's answers: Aril's own small one.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "support/engine_fixture.h"

namespace aril {
namespace {

constexpr char kModel[] = ARIL_SOURCE_DIR "/models/demo/base";

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

// The model's own greedy text from several beginnings: what it is surest of.
std::vector<std::vector<int32_t>> OwnTexts(Engine& engine) {
  std::vector<wire::SequenceRequest> requests;
  for (int32_t i = 0; i < 8; ++i) requests.push_back(GreedyRequest(i, {300 + 60 * i, 500, 2}, 40));
  std::vector<std::vector<int32_t>> texts;
  const auto results = RunAll(engine, requests);
  for (size_t i = 0; i < results.size(); ++i) {
    texts.push_back(requests[i].prompt);
    texts.back().insert(texts.back().end(), results[i].tokens.begin(), results[i].tokens.end());
  }
  return texts;
}

TEST(Quantization, Int8StaysCloseToTheUnquantizedModel) {
  const auto plain = OpenRunner({.model_dir = kModel});
  const auto quantized = OpenRunner({.model_dir = kModel, .quantization = "int8"});
  ASSERT_TRUE(plain != nullptr && quantized != nullptr);
  double divergence = 0;
  int64_t positions = 0, agreements = 0;
  for (const std::vector<int32_t>& text : OwnTexts(plain->engine())) {
    std::vector<int64_t> all(text.size());
    std::iota(all.begin(), all.end(), 0);
    const auto expected = TeacherForcedLogits(plain->engine(), text, all, {});
    const auto actual = TeacherForcedLogits(quantized->engine(), text, all, {});
    for (size_t i = 0; i < all.size(); ++i) {
      divergence += Divergence(expected[i], actual[i]);
      const auto best = [](const std::vector<float>& v) {
        return std::max_element(v.begin(), v.end()) - v.begin();
      };
      if (best(expected[i]) == best(actual[i])) ++agreements;
      ++positions;
    }
  }
  const double mean = divergence / static_cast<double>(positions);
  const double agreement = static_cast<double>(agreements) / static_cast<double>(positions);
  RecordProperty("divergence_nats", std::to_string(mean));
  RecordProperty("agreement", std::to_string(agreement));
  std::cout << "mean divergence " << mean << " nats, same likeliest token " << agreement << " of "
            << positions << std::endl;
  // Measured: see docs/benchmarks.md, "Weights of 8 bits"; a bug moves far more than a rounding.
  EXPECT_LT(mean, 0.02);
  EXPECT_GT(agreement, 0.95);
}

TEST(Quantization, Int8IsTheSameOnEveryInstructionSetUpToTheRestOfTheModel) {
  // The products of bytes are exact; what differs between instruction sets is the rest.
  std::vector<std::vector<std::vector<float>>> logits;
  const std::vector<int32_t> text = {300, 500, 2, 260, 400, 123, 77, 901};
  for (const kernels::Isa isa : kernels::AvailableIsas()) {
    const auto runner =
        OpenRunner({.model_dir = kModel, .quantization = "int8", .isa = std::string(Name(isa))});
    ASSERT_NE(runner, nullptr);
    logits.push_back(TeacherForcedLogits(runner->engine(), text, {7}, {}));
  }
  for (const auto& other : logits) EXPECT_LT(Divergence(logits[0][0], other[0]), 1e-3);
}

}  // namespace
}  // namespace aril

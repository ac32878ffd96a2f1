// How far weights of 8 and of 4 bits move real models' answers: Aril's own small one, and
// stories260K.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "support/engine_fixture.h"

namespace aril {
namespace {

const std::string kDemo = SourcePath("models/demo/base");
const std::string kStories = SharedPath("data/models/stories260K");

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
  for (int32_t i = 0; i < 8; ++i) requests.push_back(GreedyRequest(i, {260 + 30 * i, 500, 2}, 40));
  std::vector<std::vector<int32_t>> texts;
  const auto results = RunAll(engine, requests);
  for (size_t i = 0; i < results.size(); ++i) {
    texts.push_back(requests[i].prompt);
    texts.back().insert(texts.back().end(), results[i].tokens.begin(), results[i].tokens.end());
  }
  return texts;
}

// What one engine makes of texts, beside another.
struct Comparison {
  double divergence = 0;  // of the next token's distribution, nats, mean over the positions
  double agreement = 0;   // share of the positions with the same likeliest token
  int64_t positions = 0;
};

std::ostream& operator<<(std::ostream& out, const Comparison& c) {
  return out << "mean divergence " << c.divergence << " nats, same likeliest token " << c.agreement
             << " of " << c.positions;
}

using Texts = std::vector<std::vector<int32_t>>;
using Logits = std::vector<std::vector<float>>;  // of each position of each text

Logits LogitsOf(Engine& engine, const Texts& texts) {
  Logits logits;
  for (const std::vector<int32_t>& text : texts) {
    std::vector<int64_t> all(text.size());
    std::iota(all.begin(), all.end(), 0);
    for (auto& of_position : TeacherForcedLogits(engine, text, all, {})) {
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

struct RealModel {
  std::string name;
  std::string dir;
};

// Measured: see docs/benchmarks.md, "Weights of 8 bits" and "Weights of 4 bits"; a bug moves far
// more than a rounding.
struct Rounding {
  std::string quantization;
  double max_divergence;
  double min_agreement;
};

class Quantization : public ::testing::TestWithParam<std::tuple<RealModel, Rounding>> {
 protected:
  const std::string& dir() const { return std::get<RealModel>(GetParam()).dir; }
  const Rounding& rounding() const { return std::get<Rounding>(GetParam()); }

  void SetUp() override {
    if (dir() == kStories && !FileExists(kStories + "/config.json")) {
      GTEST_SKIP() << kStories << " is absent";
    }
  }
};

TEST_P(Quantization, StaysCloseToTheUnquantizedModel) {
  const auto plain = OpenRunner({.model_dir = dir()});
  const auto quantized = OpenRunner({.model_dir = dir(), .quantization = rounding().quantization});
  ASSERT_TRUE(plain != nullptr && quantized != nullptr);
  const Texts texts = OwnTexts(plain->engine());
  const Comparison found =
      Compare(LogitsOf(plain->engine(), texts), LogitsOf(quantized->engine(), texts));
  RecordProperty("divergence_nats", std::to_string(found.divergence));
  RecordProperty("agreement", std::to_string(found.agreement));
  std::cout << found << std::endl;
  EXPECT_LT(found.divergence, rounding().max_divergence);
  EXPECT_GT(found.agreement, rounding().min_agreement);
}

// The products of bytes are exact, or nearly so; what differs between instruction sets is the rest,
// and which way that tips the rounding of an activation. The weights are rounded alike: so two of
// them are closer to each other than rounding the weights brings each to the model as it is.
TEST_P(Quantization, DiffersLessByInstructionSetThanFromTheUnquantizedModel) {
  const auto plain = OpenRunner({.model_dir = dir()});
  ASSERT_NE(plain, nullptr);
  Texts texts = OwnTexts(plain->engine());
  texts.resize(3);
  const Logits unquantized = LogitsOf(plain->engine(), texts);
  Logits first;
  double of_first = 0;
  for (const kernels::Isa isa : kernels::AvailableIsas()) {
    const auto runner = OpenRunner({.model_dir = dir(),
                                    .quantization = rounding().quantization,
                                    .isa = std::string(Name(isa))});
    ASSERT_NE(runner, nullptr);
    const Logits logits = LogitsOf(runner->engine(), texts);
    const Comparison to_model = Compare(unquantized, logits);
    std::cout << Name(isa) << ", from the unquantized model: " << to_model << std::endl;
    EXPECT_LT(to_model.divergence, rounding().max_divergence);
    if (first.empty()) {
      first = logits;
      of_first = to_model.divergence;
      continue;
    }
    const Comparison to_first = Compare(first, logits);
    std::cout << Name(isa) << ", from the first: " << to_first << std::endl;
    EXPECT_LT(to_first.divergence, of_first);
  }
}

INSTANTIATE_TEST_SUITE_P(RealModels, Quantization,
                         ::testing::Combine(::testing::Values(RealModel{"demo", kDemo},
                                                              RealModel{"stories260k", kStories}),
                                            ::testing::Values(Rounding{"int8", 0.02, 0.9},
                                                              Rounding{"int4", 0.2, 0.8})),
                         [](const auto& tested) {
                           return std::get<RealModel>(tested.param).name + "_" +
                                  std::get<Rounding>(tested.param).quantization;
                         });

}  // namespace
}  // namespace aril

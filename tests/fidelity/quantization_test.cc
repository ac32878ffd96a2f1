// How far weights of 8 bits, of 4, and of NF4 move real models' answers: Aril's own small one, and
// stories260K.

#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "support/distributions.h"
#include "support/engine_fixture.h"

namespace aril {
namespace {

const std::string kDemo = SourcePath("models/demo/base");
const std::string kStories = SharedPath("data/models/stories260K");

// The model's own greedy text from several beginnings: what it is surest of.
Texts OwnTexts(Engine& engine) {
  std::vector<wire::SequenceRequest> requests;
  for (int32_t i = 0; i < 8; ++i) requests.push_back(GreedyRequest(i, {260 + 30 * i, 500, 2}, 40));
  Texts texts;
  const auto results = RunAll(engine, requests);
  for (size_t i = 0; i < results.size(); ++i) {
    texts.push_back(requests[i].prompt);
    texts.back().insert(texts.back().end(), results[i].tokens.begin(), results[i].tokens.end());
  }
  return texts;
}

struct RealModel {
  std::string name;
  std::string dir;
};

// Measured: see docs/benchmarks.md, "Weights of 8 bits", "Weights of 4 bits" and "NF4"; a bug moves
// far more than a rounding.
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

std::string TestName(const ::testing::TestParamInfo<std::tuple<RealModel, Rounding>>& tested) {
  return std::get<RealModel>(tested.param).name + "_" +
         std::get<Rounding>(tested.param).quantization;
}

INSTANTIATE_TEST_SUITE_P(RealModels, Quantization,
                         ::testing::Combine(::testing::Values(RealModel{"demo", kDemo},
                                                              RealModel{"stories260k", kStories}),
                                            ::testing::Values(Rounding{"int8", 0.02, 0.9},
                                                              Rounding{"int4", 0.2, 0.8})),
                         TestName);

// stories260K has no whole blocks.
INSTANTIATE_TEST_SUITE_P(Nf4, Quantization,
                         ::testing::Combine(::testing::Values(RealModel{"demo", kDemo}),
                                            ::testing::Values(Rounding{"nf4", 0.02, 0.9})),
                         TestName);

}  // namespace
}  // namespace aril

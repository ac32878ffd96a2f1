// Quantized checkpoints answer as the numbers do that they stand for: what is between them, if
// anything, is that activations are rounded to bytes.

#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "adapters/test_support.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "support/distributions.h"
#include "support/engine_fixture.h"

namespace aril {
namespace {

constexpr uint64_t kSeed = 3;

std::vector<std::string> Models() {
  std::vector<std::string> names;
  const std::string goldens = SourcePath("tests/goldens-quantized");
  for (const auto& folder : std::filesystem::directory_iterator(goldens)) {
    names.push_back(folder.path().filename());
  }
  return names;
}

class QuantizedCheckpoint : public ::testing::TestWithParam<std::string> {
 protected:
  // Of FP8 and of codes nothing is rounded but sums.
  double Bound(double where_activations_are_rounded) const {
    const bool is_exact = GetParam().starts_with("fp8-") || GetParam().starts_with("bnb-") ||
                          GetParam().starts_with("mxfp4-");
    return is_exact ? 1e-9 : where_activations_are_rounded;
  }

  const std::string dir_ = SourcePath("tests/goldens-quantized/" + GetParam());
};

Texts RandomTexts() {
  std::mt19937_64 random(kSeed);
  Texts texts(4, std::vector<int32_t>(40));
  for (auto& text : texts) {
    for (int32_t& token : text) token = static_cast<int32_t>(random() % 130);
  }
  return texts;
}

TEST_P(QuantizedCheckpoint, AnswersAsTheNumbersThatItStandsFor) {
  const auto numbers = OpenRunner({.model_dir = dir_ + "/dequantized", .dtype = "float32"});
  ASSERT_NE(numbers, nullptr);
  const Texts texts = RandomTexts();
  const Logits expected = LogitsOf(numbers->engine(), texts);
  const auto rounded = OpenRunner({.model_dir = dir_ + "/dequantized", .dtype = "bfloat16"});
  ASSERT_NE(rounded, nullptr);
  const Comparison of_bf16 = Compare(expected, LogitsOf(rounded->engine(), texts));
  std::cout << "numbers in bfloat16: " << of_bf16 << std::endl;
  for (const kernels::Isa isa : kernels::AvailableIsas()) {
    const auto quantized =
        OpenRunner({.model_dir = dir_, .dtype = "float32", .isa = std::string(Name(isa))});
    ASSERT_NE(quantized, nullptr);
    const Comparison found = Compare(expected, LogitsOf(quantized->engine(), texts));
    std::cout << Name(isa) << ": " << found << std::endl;
    EXPECT_LT(found.divergence, Bound(1e-3)) << "seed " << kSeed;
  }
  const auto in_bf16 = OpenRunner({.model_dir = dir_, .dtype = "bfloat16"});
  ASSERT_NE(in_bf16, nullptr);
  EXPECT_LT(Compare(expected, LogitsOf(in_bf16->engine(), texts)).divergence, 2e-3);
}

// LoRA and DoRA, of which the latter's gains are of what the weights stand for.
TEST_P(QuantizedCheckpoint, AdaptersChangeItAsTheyDoItsNumbers) {
  const auto spec = LoadModelSpec(dir_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const Texts texts = RandomTexts();
  for (const bool use_dora : {false, true}) {
    const TestDir adapter;
    WriteRandomAdapter(adapter.path(), *spec, use_dora, kSeed);
    const auto open = [&](const std::string& dir) {
      return OpenRunner({.model_dir = dir, .adapter_dirs = {adapter.path()}, .dtype = "float32"});
    };
    const auto numbers = open(dir_ + "/dequantized"), quantized = open(dir_);
    ASSERT_TRUE(numbers != nullptr && quantized != nullptr);
    const AdapterMix mix = {{.id = AdapterId(0)}};
    const Logits expected = LogitsOf(numbers->engine(), texts, mix);
    const Logits found = LogitsOf(quantized->engine(), texts, mix);
    // A row of rounded activations may go to another expert.
    const bool may_choose_others = spec->experts && spec->experts->per_token < spec->experts->count;
    EXPECT_LT(Compare(expected, found).divergence, Bound(may_choose_others ? 1e-2 : 2e-3))
        << use_dora << " seed " << kSeed;
    EXPECT_GT(Compare(expected, LogitsOf(quantized->engine(), texts)).divergence, 2e-2)
        << use_dora << " seed " << kSeed;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, QuantizedCheckpoint, ::testing::ValuesIn(Models()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace aril

// Quantized checkpoints answer as the numbers do that they stand for: what is between them is
// that activations are rounded to bytes.

#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <vector>

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

class QuantizedCheckpoint : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantizedCheckpoint, AnswersAsTheNumbersThatItStandsFor) {
  const std::string dir = SourcePath("tests/goldens-quantized/" + GetParam());
  const auto numbers = OpenRunner({.model_dir = dir + "/dequantized", .dtype = "float32"});
  ASSERT_NE(numbers, nullptr);
  std::mt19937_64 random(kSeed);
  Texts texts(4, std::vector<int32_t>(40));
  for (auto& text : texts) {
    for (int32_t& token : text) token = static_cast<int32_t>(random() % 130);
  }
  const Logits expected = LogitsOf(numbers->engine(), texts);
  const auto rounded = OpenRunner({.model_dir = dir + "/dequantized", .dtype = "bfloat16"});
  ASSERT_NE(rounded, nullptr);
  const Comparison of_bf16 = Compare(expected, LogitsOf(rounded->engine(), texts));
  std::cout << "numbers in bfloat16: " << of_bf16 << std::endl;
  for (const kernels::Isa isa : kernels::AvailableIsas()) {
    const auto quantized =
        OpenRunner({.model_dir = dir, .dtype = "float32", .isa = std::string(Name(isa))});
    ASSERT_NE(quantized, nullptr);
    const Comparison found = Compare(expected, LogitsOf(quantized->engine(), texts));
    std::cout << Name(isa) << ": " << found << std::endl;
    EXPECT_LT(found.divergence, 1e-3) << "seed " << kSeed;
  }
  const auto in_bf16 = OpenRunner({.model_dir = dir, .dtype = "bfloat16"});
  ASSERT_NE(in_bf16, nullptr);
  EXPECT_LT(Compare(expected, LogitsOf(in_bf16->engine(), texts)).divergence, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Goldens, QuantizedCheckpoint, ::testing::ValuesIn(Models()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace aril

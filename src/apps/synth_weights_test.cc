#include "apps/synth_weights.h"

#include <cmath>

#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

class SynthWeightsTest : public testing::Test {
 protected:
  SafetensorsFile Write(DType dtype, const std::vector<SynthTensor>& tensors, uint64_t seed,
                        int threads) {
    ThreadPool pool(threads);
    const Status status = SynthWeights(dtype).WriteFile(path_, tensors, seed, pool, nullptr);
    EXPECT_TRUE(status.ok()) << status;
    auto file = SafetensorsFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  std::vector<float> Read(const SafetensorsFile& file, const std::string& name) {
    const TensorView& view = file.tensors().at(name);
    std::vector<float> values(static_cast<size_t>(view.num_elements()));
    CopyAsFloat(view, 0, view.num_elements(), values.data());
    return values;
  }

  const TestDir dir_;
  const std::string path_ = dir_ / "model.safetensors";
};

TEST_F(SynthWeightsTest, AreNormalWithTheStatedDeviation) {
  constexpr int64_t kCount = 1'000'001;
  const auto values = Read(Write(DType::kF32, {{"w", {kCount}, 0.5}}, 1, 1), "w");
  double sum = 0, squares = 0, fourth = 0;
  int64_t within_one = 0, beyond_three = 0;
  for (const float value : values) {
    const double z = value / 0.5;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    within_one += std::fabs(z) < 1;
    beyond_three += std::fabs(z) > 3;
  }
  // Bounds of five standard errors of n independent normal draws: 1/√n for the mean, √(2/n) for the
  // second moment, √(96/n) for the fourth, √(p(1-p)/n) for a frequency.
  const double n = static_cast<double>(kCount);
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(static_cast<double>(within_one) / n, 0.682689, 5 * std::sqrt(0.2166 / n));
  EXPECT_NEAR(static_cast<double>(beyond_three) / n, 0.0026998, 5 * std::sqrt(0.0027 / n));
}

// Neighbours, which share one draw of 64 bits, must be as independent as the rest.
TEST_F(SynthWeightsTest, NeighboursAreUncorrelated) {
  const auto values = Read(Write(DType::kF32, {{"w", {400'000}, 1}}, 2, 1), "w");
  for (const size_t lag : {1, 2, 3, 4, 256}) {
    double sum = 0;
    const size_t n = values.size() - lag;
    for (size_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]) * values[i + lag];
    EXPECT_NEAR(sum / static_cast<double>(n), 0, 5 / std::sqrt(static_cast<double>(n))) << lag;
  }
}

TEST_F(SynthWeightsTest, DependOnSeedAndNameOnly) {
  const std::vector<SynthTensor> tensors = {
      {"a", {301, 1001}, 1}, {"norm", {7}, 0}, {"b", {3}, 1}, {"c", {200'000}, 1}};
  const auto one = Write(DType::kF32, tensors, 7, 1);
  const auto a = Read(one, "a");
  const auto c = Read(one, "c");
  EXPECT_EQ(Read(Write(DType::kF32, tensors, 7, 4), "a"), a) << "threads";
  EXPECT_EQ(Read(Write(DType::kF32, {tensors[3]}, 7, 2), "c"), c) << "place in the file";
  EXPECT_NE(Read(Write(DType::kF32, tensors, 8, 1), "a"), a) << "seed";
  const auto renamed = Read(Write(DType::kF32, {{"d", {200'000}, 1}}, 7, 1), "d");
  EXPECT_NE(renamed, c) << "name";
}

TEST_F(SynthWeightsTest, EveryDTypeRoundsTheSameDraws) {
  const std::vector<SynthTensor> tensors = {{"w", {1, 4099}, 0.03}, {"norm", {5}, 0}};
  const auto f32 = Read(Write(DType::kF32, tensors, 3, 1), "w");
  const auto bf16 = Read(Write(DType::kBF16, tensors, 3, 1), "w");
  const auto f16_file = Write(DType::kF16, tensors, 3, 1);
  const auto f16 = Read(f16_file, "w");
  for (size_t i = 0; i < f32.size(); ++i) {
    ASSERT_EQ(bf16[i], ToFloat(ToBF16(f32[i])));
    ASSERT_EQ(f16[i], ToFloat(ToF16(f32[i])));
  }
  EXPECT_THAT(Read(f16_file, "norm"), testing::Each(1.0f));
}

TEST_F(SynthWeightsTest, TellsHowMuchIsWritten) {
  ThreadPool pool(1);
  uint64_t written = 0;
  const std::vector<SynthTensor> tensors = {{"w", {5'000'000, 4}, 1}};
  const Status status =
      SynthWeights(DType::kBF16).WriteFile(path_, tensors, 0, pool, [&](uint64_t b) {
        written += b;
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(written, 40'000'000u);
}

}  // namespace
}  // namespace aril

#include "adapters/dora.h"

#include <cmath>
#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/gemm/codebook4_test_support.h"
#include "kernels/gemm/float8_test_support.h"
#include "kernels/gemm/int4_test_support.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

// A float32 tensor of unit normals that owns its numbers.
struct Numbers {
  Numbers(Shape shape, std::mt19937_64& random) {
    view = {nullptr, DType::kF32, std::move(shape)};
    values.resize(static_cast<size_t>(view.num_elements()));
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random);
    view.data = reinterpret_cast<const std::byte*>(values.data());
  }
  Numbers(const Numbers&) = delete;
  double At(int64_t row, int64_t col) const {
    return values[static_cast<size_t>(row * view.shape[1] + col)];
  }

  std::vector<float> values;
  TensorView view;
};

// Against the definition in double. 130 rows: more than two blocks. The bound: a float32 dot
// product of n unit normals errs by at most n² · 2⁻²⁴ and here by about √n of that; the squared
// length is at least in / 4 with these sizes, so that 1e-4 leaves a factor of ten.
TEST(Dora, GainsAreTheLearnedLengthOverTheOneThatIs) {
  constexpr uint64_t kSeed = 3;
  std::mt19937_64 random(kSeed);
  for (const kernels::Isa isa : kernels::AvailableIsas()) {
    for (const auto& [in, rank] : {std::pair<int64_t, int64_t>{48, 1}, {100, 3}, {333, 64}}) {
      constexpr int64_t kOut = 130;
      const Numbers w({kOut, in}, random), a({rank, in}, random), b({kOut, rank}, random),
          magnitude({kOut}, random);
      const double scale = 0.3;
      const auto gains = DoraGains({w.view, a.view, b.view, magnitude.view, scale}, isa);
      ASSERT_TRUE(gains.ok()) << gains.status();
      for (int64_t o = 0; o < kOut; ++o) {
        double square = 0;
        for (int64_t i = 0; i < in; ++i) {
          double value = w.At(o, i);
          for (int64_t j = 0; j < rank; ++j) value += scale * b.At(o, j) * a.At(j, i);
          square += value * value;
        }
        const double expected = magnitude.values[static_cast<size_t>(o)] / std::sqrt(square);
        ASSERT_NEAR((*gains)[static_cast<size_t>(o)], expected, 1e-4 * std::fabs(expected) + 1e-7)
            << isa << " in " << in << " rank " << rank << " row " << o << " seed " << kSeed;
      }
    }
  }
}

TEST(Dora, GainsOfQuantizedWeightsAreThoseOfTheNumbersThatTheyStandFor) {
  constexpr uint64_t kSeed = 4;
  constexpr int64_t kOut = 136, kIn = 200, kRank = 3;
  std::mt19937_64 random(kSeed);
  const kernels::RandomInt4 int4(Int4View::Layout::kAwq, kOut, kIn, 64, DType::kF16, random);
  const kernels::RandomFloat8 float8(kOut, kIn, 16, 128, random);
  const kernels::RandomCodebook4 codes(kOut, kIn, 64, true, random);
  const Numbers a({kRank, kIn}, random), b({kOut, kRank}, random), magnitude({kOut}, random);
  const kernels::Isa isa = kernels::AvailableIsas().back();
  for (const WeightView& quantized :
       {WeightView(int4.view()), WeightView(float8.view()), WeightView(codes.view())}) {
    std::vector<float> values(kOut * kIn);
    CopyAsFloat(quantized, 0, kOut * kIn, values.data());
    const TensorView w{reinterpret_cast<const std::byte*>(values.data()), DType::kF32, {kOut, kIn}};
    const auto expected = DoraGains({w, a.view, b.view, magnitude.view, 0.3}, isa);
    const auto gains = DoraGains({quantized, a.view, b.view, magnitude.view, 0.3}, isa);
    ASSERT_TRUE(expected.ok() && gains.ok());
    EXPECT_EQ(*gains, *expected) << "seed " << kSeed;
  }
}

// The embedding's outputs are the columns of its matrix. 600 tokens: more than two blocks; the
// bound as above, of the blocks' 256.
TEST(Dora, OfTheEmbeddingTheColumnsHaveLengths) {
  constexpr uint64_t kSeed = 5;
  std::mt19937_64 random(kSeed);
  for (const kernels::Isa isa : kernels::AvailableIsas()) {
    for (const auto& [vocab, rank] : {std::pair<int64_t, int64_t>{40, 1}, {256, 3}, {600, 33}}) {
      constexpr int64_t kHidden = 70;
      const Numbers w({vocab, kHidden}, random), a({rank, vocab}, random),
          b({kHidden, rank}, random), magnitude({kHidden}, random);
      const double scale = 0.3;
      const auto gains = DoraEmbeddingGains({w.view, a.view, b.view, magnitude.view, scale}, isa);
      ASSERT_TRUE(gains.ok()) << gains.status();
      ASSERT_EQ(gains->size(), static_cast<size_t>(kHidden));
      for (int64_t h = 0; h < kHidden; ++h) {
        double square = 0;
        for (int64_t v = 0; v < vocab; ++v) {
          double value = w.At(v, h);
          for (int64_t j = 0; j < rank; ++j) value += scale * b.At(h, j) * a.At(j, v);
          square += value * value;
        }
        const double expected = magnitude.values[static_cast<size_t>(h)] / std::sqrt(square);
        ASSERT_NEAR((*gains)[static_cast<size_t>(h)], expected, 1e-4 * std::fabs(expected) + 1e-7)
            << isa << " vocab " << vocab << " rank " << rank << " column " << h << " seed "
            << kSeed;
      }
    }
  }
}

TEST(Dora, AColumnOfTheEmbeddingWithoutLengthIsRefused) {
  std::mt19937_64 random(1);
  Numbers w({8, 2}, random), a({1, 8}, random), b({2, 1}, random), magnitude({2}, random);
  for (size_t token = 0; token < 8; ++token) w.values[2 * token + 1] = 0;
  b.values[1] = 0;
  const auto gains = DoraEmbeddingGains({w.view, a.view, b.view, magnitude.view, 1},
                                        kernels::AvailableIsas().back());
  ASSERT_FALSE(gains.ok());
  EXPECT_THAT(Message(gains.status()), HasSubstr("output 1 of the adapted weight has no length"));
}

TEST(Dora, ARowWithoutLengthIsRefused) {
  std::mt19937_64 random(1);
  Numbers w({2, 8}, random), a({1, 8}, random), b({2, 1}, random), magnitude({2}, random);
  std::fill(w.values.begin() + 8, w.values.end(), 0.0f);
  b.values[1] = 0;
  const auto gains =
      DoraGains({w.view, a.view, b.view, magnitude.view, 1}, kernels::AvailableIsas().back());
  ASSERT_FALSE(gains.ok());
  EXPECT_THAT(Message(gains.status()), HasSubstr("output 1 of the adapted weight has no length"));
}

}  // namespace
}  // namespace aril

// The same expectations hold for a processor with AMX, on which these tests check the processor.

#include "kernels/cpu/amx_emulator.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/isa.h"
#include "tensor/dtype.h"

namespace aril::kernels {
namespace {

// Sums are [M, N], a is [M, K], b [K, N], in dwords.
constexpr int kM = 5, kN = 7, kK = 3;
constexpr amx::TileConfig kOddSizes = {.row_bytes = {4 * kN, 4 * kK, 4 * kN}, .rows = {kM, kK, kM}};
constexpr amx::TileConfig kProduct = {.row_bytes = {4 * kN, 4 * kK, 4 * kN}, .rows = {kM, kM, kK}};
constexpr long kStride = 128;

class Amx : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto isas = AvailableIsas();
    if (std::find(isas.begin(), isas.end(), Isa::kAmx) == isas.end()) {
      GTEST_SKIP() << "this processor has no AVX-512, which the emulator is for";
    }
  }
};

// Memory is written before and read after, which GCC 12 does not see of these instructions.
void Fence() { asm volatile("" ::: "memory"); }

struct alignas(64) Memory {
  uint32_t rows[16][kStride / 4] = {};
};

void FillRandomly(Memory& memory, std::mt19937& random) {
  for (auto& row : memory.rows) {
    for (uint32_t& dword : row) dword = random();
  }
}

TEST_F(Amx, LoadsAndStoresTheBytesOfATileAndNoOthers) {
  std::mt19937 random(1);
  Memory from, to;
  FillRandomly(from, random);
  amx::ConfigureTiles(kOddSizes);
  Fence();
  _tile_loadd(0, from.rows, kStride);
  _tile_stored(0, to.rows, kStride);
  Fence();
  _tile_release();
  for (int row = 0; row < 16; ++row) {
    for (int i = 0; i < kStride / 4; ++i) {
      const bool is_in_tile = row < kM && i < kN;
      ASSERT_EQ(to.rows[row][i], is_in_tile ? from.rows[row][i] : 0) << row << ", " << i;
    }
  }
}

TEST_F(Amx, ATileOfZerosIsZero) {
  std::mt19937 random(1);
  Memory to;
  FillRandomly(to, random);
  amx::ConfigureTiles();
  _tile_zero(3);
  _tile_stored(3, to.rows, kStride);
  Fence();
  _tile_release();
  for (const auto& row : to.rows) {
    for (int i = 0; i < 16; ++i) ASSERT_EQ(row[i], 0u);
  }
}

float At(const Memory& memory, int row, int element) {
  uint16_t bits;
  std::memcpy(&bits, reinterpret_cast<const std::byte*>(memory.rows[row]) + 2 * element, 2);
  return ToFloat(BF16{bits});
}

TEST_F(Amx, MultipliesPairsOfBf16) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Memory a, b, sum;
  for (Memory* memory : {&a, &b}) {
    for (auto& row : memory->rows) {
      for (uint32_t& pair : row) {
        pair = uint32_t{ToBF16(normal(random)).bits} << 16 | ToBF16(normal(random)).bits;
      }
    }
  }
  float before[kM][kN];
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      before[m][n] = normal(random);
      std::memcpy(&sum.rows[m][n], &before[m][n], 4);
    }
  }
  amx::ConfigureTiles(kProduct);
  Fence();
  _tile_loadd(0, sum.rows, kStride);
  _tile_loadd(1, a.rows, kStride);
  _tile_stream_loadd(2, b.rows, kStride);
  _tile_dpbf16ps(0, 1, 2);
  _tile_stored(0, sum.rows, kStride);
  Fence();
  _tile_release();
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      double expected = before[m][n], magnitude = std::abs(expected);
      for (int k = 0; k < kK; ++k) {
        for (int half = 0; half < 2; ++half) {
          const double product = static_cast<double>(At(a, m, 2 * k + half)) *
                                 static_cast<double>(At(b, k, 2 * n + half));
          expected += product;
          magnitude += std::abs(product);
        }
      }
      float actual = 0;
      std::memcpy(&actual, &sum.rows[m][n], 4);
      // Products of BF16 are exact in float; each of the 2 K + 1 additions rounds once.
      EXPECT_NEAR(actual, expected, (2 * kK + 1) * magnitude * 0x1p-24) << m << ", " << n;
    }
  }
}

TEST_F(Amx, MultipliesBytesThatAreSignedOrNot) {
  Memory a, b, unsigned_signed, signed_signed;
  for (auto& row : a.rows) std::fill(std::begin(row), std::end(row), 0xFF02FF02);  // 255 or −1, 2
  for (auto& row : b.rows) std::fill(std::begin(row), std::end(row), 0x80038003);  // −128, 3
  amx::ConfigureTiles(kProduct);
  Fence();
  _tile_loadd(1, a.rows, kStride);
  _tile_loadd(2, b.rows, kStride);
  _tile_zero(0);
  _tile_dpbusd(0, 1, 2);
  _tile_stored(0, unsigned_signed.rows, kStride);
  _tile_zero(0);
  _tile_dpbssd(0, 1, 2);
  _tile_stored(0, signed_signed.rows, kStride);
  Fence();
  _tile_release();
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      ASSERT_EQ(static_cast<int32_t>(unsigned_signed.rows[m][n]), kK * 2 * (255 * -128 + 2 * 3));
      ASSERT_EQ(static_cast<int32_t>(signed_signed.rows[m][n]), kK * 2 * (-1 * -128 + 2 * 3));
    }
  }
}

using AmxDeathTest = Amx;

TEST_F(AmxDeathTest, TilesThatAreNotConfiguredAreRefused) {
  EXPECT_DEATH(_tile_zero(0), "");
  EXPECT_DEATH(
      {
        amx::ConfigureTiles();
        _tile_release();
        _tile_zero(0);
      },
      "");
}

TEST_F(AmxDeathTest, TilesThatDoNotFitAreRefused) {
  EXPECT_DEATH(
      {
        amx::ConfigureTiles(kOddSizes);
        _tile_dpbf16ps(0, 1, 2);
      },
      "");
}

}  // namespace
}  // namespace aril::kernels

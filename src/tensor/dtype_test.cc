#include "tensor/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gtest/gtest.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace aril {
namespace {

// The value of an F16 straight from the definition of binary16.
float F16ByDefinition(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  float magnitude;
  if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else if (exponent == 31) {
    magnitude = mantissa == 0 ? INFINITY : NAN;
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
  }
  return (bits & 0x8000) ? -magnitude : magnitude;
}

bool SameValue(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(DType, NamesAndSizesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
    EXPECT_GE(SizeOf(dtype), 1u);
  }
  EXPECT_EQ(Name(DType::kBF16), "BF16");
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(DTypeFromName("bf16"), std::nullopt);
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
}

TEST(DType, EveryF16ReadsAsItsDefinitionAndRoundTrips) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const F16 half{static_cast<uint16_t>(bits)};
    const float value = ToFloat(half);
    ASSERT_TRUE(SameValue(value, F16ByDefinition(half.bits))) << std::hex << bits;
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(ToFloat(ToF16(value)))) << std::hex << bits;
    } else {
      ASSERT_EQ(ToF16(value).bits, half.bits) << std::hex << bits;
    }
  }
}

// The nearest F16 by exhaustive search of the neighbours: rounding to nearest, ties to even.
TEST(DType, ToF16RoundsToNearestEven) {
  for (uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = ToFloat(F16{bits});
    const float high = ToFloat(F16{static_cast<uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;  // exact: F16 has 13 bits less than F32
    const uint16_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(ToF16(middle).bits, even) << bits;
    ASSERT_EQ(ToF16(-middle).bits, even | 0x8000) << bits;
    ASSERT_EQ(ToF16(std::nextafter(middle, low)).bits, bits) << bits;
    ASSERT_EQ(ToF16(std::nextafter(middle, high)).bits, bits + 1) << bits;
  }
  EXPECT_EQ(ToF16(65519.99f).bits, 0x7BFF);
  EXPECT_EQ(ToF16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(ToF16(-INFINITY).bits, 0xFC00);
}

TEST(DType, ToBF16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const uint32_t low = bits << 16;
    const auto rounded = [](uint32_t b) { return ToBF16(std::bit_cast<float>(b)).bits; };
    ASSERT_EQ(rounded(low), bits);
    ASSERT_EQ(rounded(low + 0x7FFF), bits);
    ASSERT_EQ(rounded(low + 0x8000), bits + bits % 2);
    ASSERT_EQ(rounded(low + 0x8001), bits + 1);
    ASSERT_EQ(rounded((low + 0x8001) | 0x80000000u), (bits + 1) | 0x8000);
  }
  EXPECT_TRUE(std::isnan(ToFloat(ToBF16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(ToFloat(ToBF16(std::bit_cast<float>(0xFFFFFFFFu)))));
  EXPECT_EQ(ToBF16(INFINITY).bits, 0x7F80);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) float HardwareToFloat(uint16_t bits) { return _cvtsh_ss(bits); }
__attribute__((target("f16c"))) uint16_t HardwareToF16(float value) {
  return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

TEST(DType, AgreesWithTheHardware) {
  // Clang 14 cannot ask for F16C; every processor with AVX2 has it.
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no AVX2 and F16C";
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const F16 half{static_cast<uint16_t>(bits)};
    ASSERT_TRUE(SameValue(ToFloat(half), HardwareToFloat(half.bits))) << std::hex << bits;
  }
  std::mt19937 random(20240601);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(ToF16(value).bits, HardwareToF16(value)) << std::hexfloat << value;
  }
}
#endif

}  // namespace
}  // namespace aril

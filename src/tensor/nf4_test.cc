#include "tensor/nf4.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/codebook4_view.h"

namespace aril {
namespace {

constexpr uint64_t kSeed = 3;

std::vector<uint8_t> Codes(const std::vector<float>& block) {
  std::vector<uint8_t> codes(block.size());
  RoundToNf4(block, codes);
  return codes;
}

TEST(Nf4, EachOfItsNumbersIsItself) {
  std::vector<float> block;
  std::vector<uint8_t> expected;
  for (size_t i = 0; i < kNf4.size(); ++i) {
    block.push_back(kNf4[i] * 3);
    expected.push_back(static_cast<uint8_t>(i));
  }
  EXPECT_EQ(Nf4Scale(block), 3);
  EXPECT_EQ(Codes(block), expected);
}

TEST(Nf4, FindsTheNearest) {
  std::mt19937_64 random(kSeed);
  std::student_t_distribution<float> values(4.0f);
  for (int turn = 0; turn < 100; ++turn) {
    std::vector<float> block(kNf4BlockSize);
    for (float& value : block) value = values(random) * 0.02f;
    const float scale = Nf4Scale(block);
    const std::vector<uint8_t> codes = Codes(block);
    for (size_t i = 0; i < block.size(); ++i) {
      const double found = std::fabs(double{scale} * kNf4[codes[i]] - block[i]);
      for (const float number : kNf4) {
        // But for the rounding of the value divided.
        ASSERT_LE(found, std::fabs(double{scale} * number - block[i]) + 1e-6 * scale)
            << "seed " << kSeed;
      }
    }
  }
}

TEST(Nf4, ZerosHaveTheCodeOfZero) {
  const std::vector<float> zeros(5);
  EXPECT_EQ(Nf4Scale(zeros), 0);
  EXPECT_EQ(Codes(zeros), std::vector<uint8_t>(5, 7));
  // So small that its inverse would be infinite.
  const float tiny = 1e-42f;
  EXPECT_EQ(Codes({tiny, -tiny, 0}), (std::vector<uint8_t>{7, 7, 7}));
}

// Those of bitsandbytes 0.50.2: quantize_4bit(…, blocksize=64, quant_type="nf4") of these values.
TEST(Nf4, AgreesWithBitsAndBytes) {
  std::vector<float> numbers;
  for (int i = 0; i < 128; ++i) {
    const double value = (i * 37 % 101 - 50) / 64.0;
    numbers.push_back(static_cast<float>(i < 64 ? value : value * 0.01));
  }
  const std::vector<uint8_t> expected = {
      0, 4,  12, 1, 6,  14, 2, 9,  15, 3, 11, 0, 5,  13, 1, 7,  14, 2, 9,  15, 3, 12,
      0, 5,  13, 1, 8,  14, 2, 10, 15, 4, 12, 1, 6,  14, 1, 8,  14, 3, 11, 0,  5, 13,
      1, 7,  14, 2, 9,  15, 3, 11, 0,  5, 13, 1, 8,  14, 2, 10, 15, 4, 12, 1,  6, 13,
      1, 8,  14, 3, 11, 0,  4, 12, 1,  7, 14, 2, 9,  15, 3, 11, 0,  5, 13, 1,  7, 14,
      2, 10, 15, 4, 12, 0,  6, 13, 1,  8, 14, 2, 10, 0,  4, 12, 1,  6, 14, 2,  9, 15,
      3, 11, 0,  5, 13, 1,  7, 14, 2,  9, 15, 3, 12, 0,  5, 13, 1,  8};
  const auto view = Codebook4View::Nf4Of(
      {reinterpret_cast<const std::byte*>(numbers.data()), DType::kF32, {2, 64}});
  EXPECT_EQ(view.Scale(0), 0.78125f);
  EXPECT_EQ(view.Scale(1), 0.0078125f);
  std::vector<uint8_t> codes(128);
  view.CopyCodes(0, 0, 64, codes.data());
  view.CopyCodes(1, 0, 64, codes.data() + 64);
  EXPECT_EQ(codes, expected);
}

// A block goes on in the next row, and the last one is shorter.
TEST(Nf4, AViewRoundsNumbersAsTheyAreRead) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> values;
  std::vector<float> numbers(3 * 50);
  for (float& value : numbers) value = values(random);
  const auto view = Codebook4View::Nf4Of(
      {reinterpret_cast<const std::byte*>(numbers.data()), DType::kF32, {3, 50}});
  std::vector<float> expected;
  for (size_t first = 0; first < numbers.size(); first += kNf4BlockSize) {
    const size_t size = std::min<size_t>(kNf4BlockSize, numbers.size() - first);
    const std::vector<float> block(numbers.begin() + static_cast<int64_t>(first),
                                   numbers.begin() + static_cast<int64_t>(first + size));
    for (const uint8_t code : Codes(block)) expected.push_back(Nf4Scale(block) * kNf4[code]);
  }
  std::vector<float> found(numbers.size());
  CopyAsFloat(view, 0, std::ssize(found), found.data());
  EXPECT_EQ(found, expected) << "seed " << kSeed;
  CopyAsFloat(view.Rows(1, 2), 7, 60, found.data());
  EXPECT_EQ(std::vector<float>(found.begin(), found.begin() + 60),
            std::vector<float>(expected.begin() + 57, expected.begin() + 117));
}

}  // namespace
}  // namespace aril

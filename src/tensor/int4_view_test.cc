#include "tensor/int4_view.h"

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "tensor/weight_view.h"

namespace aril {
namespace {

using Layout = Int4View::Layout;

constexpr uint64_t kSeed = 7;

template <typename T>
TensorView View(const std::vector<T>& values, DType dtype, const Shape& shape) {
  TensorView view{reinterpret_cast<const std::byte*>(values.data()), dtype, shape};
  CHECK_EQ(view.size_bytes(), values.size() * sizeof(T));
  return view;
}

std::vector<float> Values(const Int4View& view) {
  std::vector<float> values(static_cast<size_t>(view.rows * view.cols));
  CopyAsFloat(view, 0, view.rows * view.cols, values.data());
  return values;
}

// What stands in the tensors of one module, of 8 outputs and 8 inputs in groups of 4: a word in
// which each four bits say their place, and all else 0.
constexpr uint32_t kPlaces = 0x76543210;

TEST(Int4View, OfGptqHasEightInputsInAWord) {
  const std::vector<uint32_t> words = {0, 0, kPlaces, 0, 0, 0, 0, 0};  // of output 2
  const std::vector<uint32_t> zeros = {kPlaces, 0x11111111};
  std::vector<float> scales(16, 1);
  scales[8 + 2] = 0.5f;  // of output 2's second group
  const Int4View view{.layout = Layout::kGptq,
                      .words = View(words, DType::kI32, {1, 8}),
                      .scales = View(scales, DType::kF32, {2, 8}),
                      .zeros = View(zeros, DType::kI32, {2, 1}),
                      .zero_addend = 0x11111111,
                      .group_size = 4,
                      .rows = 8,
                      .cols = 8};
  const std::vector<float> values = Values(view.Rows(2, 1));
  EXPECT_EQ(values, (std::vector<float>{0 - 3, 1 - 3, 2 - 3, 3 - 3, 1, 1.5f, 2, 2.5f}));
  EXPECT_EQ(view.Zero(0, 0), 1);
  EXPECT_EQ(view.Zero(7, 0), 8);
  EXPECT_EQ(view.Zero(7, 1), 2);
}

TEST(Int4View, OfAwqHasEightOutputsInAWordOutOfOrder) {
  std::vector<uint32_t> words(8, 0);
  words[5] = kPlaces;  // of input 5
  const std::vector<uint32_t> zeros = {0, kPlaces};
  const std::vector<float> scales(16, 1);
  const Int4View view{.layout = Layout::kAwq,
                      .words = View(words, DType::kI32, {8, 1}),
                      .scales = View(scales, DType::kF32, {2, 8}),
                      .zeros = View(zeros, DType::kI32, {2, 1}),
                      .group_size = 4,
                      .rows = 8,
                      .cols = 8};
  // The first four bits are output 0's, the next output 2's, then 4's, 6's, 1's, 3's, 5's and 7's.
  const std::vector<int> places = {0, 4, 1, 5, 2, 6, 3, 7};
  for (int64_t row = 0; row < 8; ++row) {
    const int place = places[static_cast<size_t>(row)];
    EXPECT_EQ(view.Zero(row, 0), 0);
    EXPECT_EQ(view.Zero(row, 1), place);
    uint8_t level;
    view.CopyLevels(row, 5, 1, &level);
    EXPECT_EQ(level, place);
    view.CopyLevels(row, 4, 1, &level);
    EXPECT_EQ(level, 0);
  }
}

TEST(Int4View, OfCompressedTensorsHasEightInputsOfAnOutputInAWord) {
  std::vector<uint32_t> words(8, 0);
  words[2] = kPlaces;
  std::vector<float> scales(16, 1);
  scales[5] = 0.5f;  // of output 2's second group
  Int4View view{.layout = Layout::kCompressed,
                .words = View(words, DType::kI32, {8, 1}),
                .scales = View(scales, DType::kF32, {8, 2}),
                .group_size = 4,
                .rows = 8,
                .cols = 8};
  EXPECT_EQ(Values(view.Rows(2, 1)), (std::vector<float>{-8, -7, -6, -5, -2, -1.5f, -1, -0.5f}));
  const std::vector<uint32_t> zeros = {kPlaces, 0};
  view.zeros = View(zeros, DType::kI32, {1, 2});
  EXPECT_EQ(view.Zero(2, 0), 2);
  EXPECT_EQ(view.Zero(2, 1), 0);
  std::vector<int8_t> bytes(16, 0);
  bytes[5] = -8;
  view.zeros = View(bytes, DType::kI8, {8, 2});
  EXPECT_EQ(view.Zero(2, 0), 8);
  EXPECT_EQ(view.Zero(2, 1), 0);
}

// Any stretch of elements, also over ends of rows and groups, has what all of them have there.
TEST(Int4View, StretchesArePartsOfTheWhole) {
  std::mt19937 random(kSeed);
  constexpr int64_t kRows = 16, kCols = 520, kGroup = 64, kGroups = 9;
  const auto words = [&](int64_t count) {
    std::vector<uint32_t> made(static_cast<size_t>(count));
    for (uint32_t& word : made) word = static_cast<uint32_t>(random());
    return made;
  };
  std::vector<uint16_t> scales(kRows * kGroups);
  for (uint16_t& scale : scales) scale = static_cast<uint16_t>(0x2C00 + random() % 0x400);
  for (const Layout layout : {Layout::kGptq, Layout::kAwq, Layout::kCompressed}) {
    const bool by_output = layout == Layout::kCompressed;
    const Shape shape = by_output                 ? Shape{kRows, kCols / 8}
                        : layout == Layout::kGptq ? Shape{kCols / 8, kRows}
                                                  : Shape{kCols, kRows / 8};
    const std::vector<uint32_t> data = words(kRows * kCols / 8);
    const std::vector<uint32_t> zeros = words(kRows / 8 * kGroups);
    const Int4View view{
        .layout = layout,
        .words = View(data, DType::kI32, shape),
        .scales =
            View(scales, DType::kF16, by_output ? Shape{kRows, kGroups} : Shape{kGroups, kRows}),
        .zeros = View(zeros, DType::kI32,
                      by_output ? Shape{kRows / 8, kGroups} : Shape{kGroups, kRows / 8}),
        .group_size = kGroup,
        .rows = kRows,
        .cols = kCols};
    const std::vector<float> all = Values(view);
    for (int i = 0; i < 50; ++i) {
      const auto first = static_cast<int64_t>(random() % (kRows * kCols));
      const auto count = static_cast<int64_t>(random() % (kRows * kCols - first) % 1500);
      std::vector<float> part(static_cast<size_t>(count));
      CopyAsFloat(WeightView(view), first, count, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first)) << "seed " << kSeed;
      std::vector<BF16> rounded(static_cast<size_t>(count));
      CopyAsBF16(WeightView(view), first, count, rounded.data());
      for (size_t e = 0; e < rounded.size(); ++e) {
        EXPECT_EQ(rounded[e].bits, ToBF16(part[e]).bits);
      }
    }
    const std::vector<float> rows = Values(view.Rows(3, 9).Rows(2, 4));
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), all.begin() + 5 * kCols));
  }
}

}  // namespace
}  // namespace aril

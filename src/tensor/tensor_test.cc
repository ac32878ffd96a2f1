#include "tensor/tensor.h"

#include <cmath>
#include <cstring>
#include <random>

#include "gtest/gtest.h"

namespace aril {
namespace {

// Elements behind `offset` bytes of padding, so that a view of them may be unaligned.
template <typename T>
class Elements {
 public:
  Elements(DType dtype, const std::vector<T>& values, size_t offset)
      : bytes_(offset + values.size() * sizeof(T)) {
    std::memcpy(bytes_.data() + offset, values.data(), values.size() * sizeof(T));
    view_ = {bytes_.data() + offset, dtype, {static_cast<int64_t>(values.size())}};
  }
  const TensorView& view() const { return view_; }

 private:
  std::vector<std::byte> bytes_;
  TensorView view_;
};

std::vector<float> Floats(const TensorView& view, int64_t first, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  CopyAsFloat(view, first, count, out.data());
  return out;
}

std::vector<uint16_t> BF16Bits(const TensorView& view, int64_t first, int64_t count) {
  std::vector<BF16> out(static_cast<size_t>(count));
  CopyAsBF16(view, first, count, out.data());
  std::vector<uint16_t> bits;
  for (const BF16 value : out) bits.push_back(value.bits);
  return bits;
}

TEST(Tensor, ShapePrintsAndCounts) {
  EXPECT_EQ(ToString(Shape{32, 128}), "[32, 128]");
  EXPECT_EQ(ToString(Shape{}), "[]");
  EXPECT_EQ((TensorView{nullptr, DType::kF16, {3, 4}}).size_bytes(), 24u);
  EXPECT_EQ((TensorView{nullptr, DType::kF32, {}}).num_elements(), 1);
  EXPECT_EQ((TensorView{nullptr, DType::kF32, {7, 0}}).num_elements(), 0);
}

TEST(Tensor, CopiesAnyRangeAtAnyAlignment) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<float> floats(1000);
  std::vector<F16> halves(1000);
  std::vector<BF16> brains(1000);
  for (size_t i = 0; i < floats.size(); ++i) {
    floats[i] = std::normal_distribution<float>()(random);
    halves[i] = ToF16(floats[i]);
    brains[i] = ToBF16(floats[i]);
  }
  for (const size_t offset : {0, 1, 2, 3}) {
    const Elements<float> f32(DType::kF32, floats, offset);
    const Elements<F16> f16(DType::kF16, halves, offset);
    const Elements<BF16> bf16(DType::kBF16, brains, offset);
    for (const auto& [first, count] : {std::pair{0, 1000}, {7, 100}, {999, 1}, {1000, 0}}) {
      for (int64_t i = 0; i < count; ++i) {
        const size_t at = static_cast<size_t>(first + i), to = static_cast<size_t>(i);
        ASSERT_EQ(Floats(f32.view(), first, count)[to], floats[at]);
        ASSERT_EQ(Floats(f16.view(), first, count)[to], ToFloat(halves[at]));
        ASSERT_EQ(Floats(bf16.view(), first, count)[to], ToFloat(brains[at]));
        ASSERT_EQ(BF16Bits(f32.view(), first, count)[to], ToBF16(floats[at]).bits);
        ASSERT_EQ(BF16Bits(f16.view(), first, count)[to], ToBF16(ToFloat(halves[at])).bits);
        ASSERT_EQ(BF16Bits(bf16.view(), first, count)[to], brains[at].bits);
        if (count > 1) i += 37;
      }
    }
  }
}

TEST(Tensor, EveryF16ConvertsInBulk) {
  std::vector<F16> all(1 << 16);
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) all[bits].bits = static_cast<uint16_t>(bits);
  const Elements<F16> tensor(DType::kF16, all, 1);
  const std::vector<float> floats = Floats(tensor.view(), 0, 1 << 16);
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    ASSERT_EQ(std::bit_cast<uint32_t>(floats[bits]), std::bit_cast<uint32_t>(ToFloat(all[bits])));
  }
}

TEST(Tensor, RowsAreAPartOfTheOutermostDimension) {
  const std::vector<std::byte> bytes(4 * 3 * 2 * 2);
  const TensorView tensor{bytes.data(), DType::kBF16, {4, 3, 2}};
  const TensorView rows = tensor.Rows(1, 2);
  EXPECT_EQ(rows.shape, (Shape{2, 3, 2}));
  EXPECT_EQ(rows.data, bytes.data() + 12);
  EXPECT_EQ(rows.dtype, DType::kBF16);
  EXPECT_EQ(tensor.Rows(4, 0).num_elements(), 0);
  EXPECT_EQ((TensorView{bytes.data(), DType::kF32, {12}}.Rows(3, 4).data), bytes.data() + 12);
}

// A single bad element anywhere is found; the largest finite ones are not taken for one.
TEST(Tensor, AllFiniteFindsEachBadElement) {
  const std::vector<float> bad = {INFINITY, -INFINITY, NAN, -NAN};
  for (const size_t at : {size_t{0}, size_t{1}, size_t{16383}, size_t{16384}, size_t{39999}}) {
    for (const float value : bad) {
      std::vector<float> f32(40000, 3.4e38f);
      std::vector<F16> f16(40000, ToF16(-65504.0f));
      std::vector<BF16> bf16(40000, BF16{0x7F7F});
      EXPECT_TRUE(AllFinite(Elements<float>(DType::kF32, f32, 1).view()));
      EXPECT_TRUE(AllFinite(Elements<F16>(DType::kF16, f16, 1).view()));
      EXPECT_TRUE(AllFinite(Elements<BF16>(DType::kBF16, bf16, 1).view()));
      f32[at] = value;
      f16[at] = ToF16(value);
      bf16[at] = ToBF16(value);
      EXPECT_FALSE(AllFinite(Elements<float>(DType::kF32, f32, 1).view())) << at;
      EXPECT_FALSE(AllFinite(Elements<F16>(DType::kF16, f16, 1).view())) << at;
      EXPECT_FALSE(AllFinite(Elements<BF16>(DType::kBF16, bf16, 1).view())) << at;
    }
  }
  EXPECT_TRUE(AllFinite(TensorView{nullptr, DType::kF32, {0}}));
}

}  // namespace
}  // namespace aril

#include "tensor/strided_view.h"

#include <vector>

#include "gtest/gtest.h"
#include "tensor/weight_view.h"

namespace aril {
namespace {

// What a row of a [2, 6] tensor has for one input: of three outputs, two matrices' in turns.
template <typename T>
StridedView SecondMatrix(const std::vector<T>& values, DType dtype) {
  return {.data = reinterpret_cast<const std::byte*>(values.data() + 1),
          .dtype = dtype,
          .rows = 3,
          .cols = 2,
          .row_stride = 2,
          .col_stride = 6};
}

std::vector<float> Values(const WeightView& view, int64_t first, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  CopyAsFloat(view, first, count, values.data());
  return values;
}

TEST(StridedView, HasItsElementsInOrder) {
  const std::vector<float> tensor = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
  std::vector<BF16> bf16;
  std::vector<F16> f16;
  for (const float value : tensor) {
    bf16.push_back(ToBF16(value));
    f16.push_back(ToF16(value));
  }
  for (const StridedView& view :
       {SecondMatrix(tensor, DType::kF32), SecondMatrix(bf16, DType::kBF16),
        SecondMatrix(f16, DType::kF16)}) {
    EXPECT_EQ(view.shape(), (Shape{3, 2}));
    EXPECT_EQ(view.size_bytes(), 6 * SizeOf(view.dtype));
    EXPECT_FALSE(IsQuantized(view));
    EXPECT_EQ(Values(view, 0, 6), (std::vector<float>{1, 11, 3, 13, 5, 15})) << view.dtype;
    EXPECT_EQ(Values(view, 1, 3), (std::vector<float>{11, 3, 13})) << view.dtype;
    EXPECT_EQ(Values(RowsOf(view, 1, 2), 1, 2), (std::vector<float>{13, 5})) << view.dtype;
    BF16 rounded[2];
    CopyAsBF16(view, 4, 2, rounded);
    EXPECT_EQ(ToFloat(rounded[1]), 15) << view.dtype;
  }
}

}  // namespace
}  // namespace aril

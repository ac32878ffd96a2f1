#include "tensor/strided_view.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace aril {
namespace {

float AsFloat(float value) { return value; }
template <typename T>
float AsFloat(T value) {
  return ToFloat(value);
}

template <typename T>
void Gather(const StridedView& from, int64_t row, int64_t col, int64_t count, float* to) {
  const std::byte* at =
      from.data + (row * from.row_stride + col * from.col_stride) * int64_t{sizeof(T)};
  for (int64_t i = 0; i < count; ++i, at += from.col_stride * int64_t{sizeof(T)}) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    to[i] = AsFloat(value);
  }
}

}  // namespace

StridedView StridedView::Rows(int64_t first, int64_t count) const {
  CHECK(first >= 0 && count >= 0 && first + count <= rows);
  StridedView part = *this;
  part.data += first * row_stride * static_cast<int64_t>(SizeOf(dtype));
  part.rows = count;
  return part;
}

void CopyAsFloat(const StridedView& from, int64_t first, int64_t count, float* to) {
  CHECK(first >= 0 && count >= 0 && first + count <= from.rows * from.cols);
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / from.cols, col = (first + done) % from.cols;
    const int64_t size = std::min(count - done, from.cols - col);
    switch (from.dtype) {
      case DType::kF32:
        Gather<float>(from, row, col, size, to + done);
        break;
      case DType::kBF16:
        Gather<BF16>(from, row, col, size, to + done);
        break;
      default:
        CHECK(from.dtype == DType::kF16);
        Gather<F16>(from, row, col, size, to + done);
    }
    done += size;
  }
}

}  // namespace aril

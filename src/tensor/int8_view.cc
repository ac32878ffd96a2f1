#include "tensor/int8_view.h"

#include <algorithm>

#include "base/check.h"

namespace aril {
namespace {

// write(value, i) for each element, the i-th of `count`.
template <typename Write>
void ForEach(const Int8View& from, int64_t first, int64_t count, const Write& write) {
  const int64_t cols = from.cols();
  CHECK(first >= 0 && count >= 0 && first + count <= from.rows() * cols);
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / cols, col = (first + done) % cols;
    const int64_t size = std::min(count - done, cols - col);
    const float scale = from.Scale(row);
    const int8_t* const levels = from.Row(row) + col;
    for (int64_t i = 0; i < size; ++i) write(scale * static_cast<float>(levels[i]), done + i);
    done += size;
  }
}

}  // namespace

float Int8View::Scale(int64_t row) const {
  float scale;
  CopyAsFloat(scales, row, 1, &scale);
  return scale;
}

void CopyAsFloat(const Int8View& from, int64_t first, int64_t count, float* to) {
  ForEach(from, first, count, [to](float value, int64_t i) { to[i] = value; });
}

void CopyAsBF16(const Int8View& from, int64_t first, int64_t count, BF16* to) {
  ForEach(from, first, count, [to](float value, int64_t i) { to[i] = ToBF16(value); });
}

}  // namespace aril

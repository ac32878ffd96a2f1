#include "tensor/int8_view.h"

#include <algorithm>

#include "base/check.h"

namespace aril {

float Int8View::Scale(int64_t row) const {
  float scale;
  CopyAsFloat(scales, row, 1, &scale);
  return scale;
}

void CopyAsFloat(const Int8View& from, int64_t first, int64_t count, float* to) {
  const int64_t cols = from.cols();
  CHECK(first >= 0 && count >= 0 && first + count <= from.rows() * cols);
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / cols, col = (first + done) % cols;
    const int64_t size = std::min(count - done, cols - col);
    const float scale = from.Scale(row);
    const int8_t* const levels = from.Row(row) + col;
    for (int64_t i = 0; i < size; ++i) to[done + i] = scale * static_cast<float>(levels[i]);
    done += size;
  }
}

}  // namespace aril

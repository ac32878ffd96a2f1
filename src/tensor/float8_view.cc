#include "tensor/float8_view.h"

#include <algorithm>

#include "base/check.h"

namespace aril {

Float8View Float8View::Rows(int64_t first, int64_t count) const {
  Float8View part = *this;
  part.levels = levels.Rows(first, count);
  part.first_row += first;
  return part;
}

float Float8View::Scale(int64_t row, int64_t block) const {
  float scale;
  CopyAsFloat(scales, (first_row + row) / block_rows * blocks() + block, 1, &scale);
  return scale;
}

void CopyAsFloat(const Float8View& from, int64_t first, int64_t count, float* to) {
  const int64_t cols = from.cols();
  CHECK(first >= 0 && count >= 0 && first + count <= from.rows() * cols);
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / cols, col = (first + done) % cols;
    const int64_t block = col / from.block_cols;
    const int64_t end = std::min(cols, (block + 1) * from.block_cols);
    const int64_t size = std::min(count - done, end - col);
    const float scale = from.Scale(row, block);
    const F8E4M3* const levels = from.Row(row) + col;
    for (int64_t i = 0; i < size; ++i) to[done + i] = scale * ToFloat(levels[i]);
    done += size;
  }
}

}  // namespace aril

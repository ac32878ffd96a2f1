#include "tensor/int4_view.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/check.h"

namespace aril {
namespace {

constexpr int64_t kPerWord = 8;
// Where in a word of AWQ each of eight outputs is (AutoAWQ: awq/utils/packing_utils.py).
constexpr std::array<int, kPerWord> kAwqPlace = {0, 4, 1, 5, 2, 6, 3, 7};
// What stands for 0 where there are no zero points, and is added to signed ones.
constexpr int kMiddle = 8;

template <typename T>
T Load(const TensorView& from, int64_t index) {
  T value;
  std::memcpy(&value, from.data + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

int Nibble(const TensorView& words, int64_t word, int place, uint32_t addend = 0) {
  return static_cast<int>((Load<uint32_t>(words, word) + addend) >> 4 * place & 15);
}

}  // namespace

size_t Int4View::size_bytes() const { return static_cast<size_t>(rows * cols) / 2; }

Int4View Int4View::Rows(int64_t first, int64_t count) const {
  CHECK(first >= 0 && count >= 0 && first + count <= rows);
  Int4View part = *this;
  part.first_row += first;
  part.rows = count;
  return part;
}

int64_t Int4View::GroupOf(int64_t col) const {
  if (order.data == nullptr) return col / group_size;
  return IntegerAt(order, col);
}

int64_t Int4View::GroupSize(int64_t group) const {
  return std::min(group_size, cols - group * group_size);
}

std::vector<int32_t> Int4View::InputsByGroup() const {
  if (order.data == nullptr) return {};
  std::vector<int32_t> inputs(static_cast<size_t>(cols));
  std::iota(inputs.begin(), inputs.end(), 0);
  std::ranges::stable_sort(inputs, {}, [&](int32_t input) { return GroupOf(input); });
  return inputs;
}

bool Int4View::HasSameGroupsAs(const Int4View& other) const {
  if (cols != other.cols) return false;
  for (int64_t col = 0; col < cols; ++col) {
    if (GroupOf(col) != other.GroupOf(col)) return false;
  }
  return true;
}

void Int4View::CopyLevels(int64_t row, int64_t first, int64_t count, uint8_t* to) const {
  const int64_t output = first_row + row;
  if (layout == Layout::kAwq) {
    const int place = kAwqPlace[static_cast<size_t>(output % kPerWord)];
    const int64_t stride = words.shape[1];
    for (int64_t i = 0; i < count; ++i) {
      const int level = Nibble(words, (first + i) * stride + output / kPerWord, place);
      to[i] = static_cast<uint8_t>(level);
    }
    return;
  }
  const bool is_by_output = layout == Layout::kCompressed;
  const int64_t start = is_by_output ? output * words.shape[1] : output;
  const int64_t stride = is_by_output ? 1 : words.shape[1];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t input = first + i;
    const int level =
        Nibble(words, start + input / kPerWord * stride, static_cast<int>(input % kPerWord));
    to[i] = static_cast<uint8_t>(level);
  }
}

float Int4View::Scale(int64_t row, int64_t group) const {
  const int64_t output = first_row + row;
  const int64_t index = layout == Layout::kCompressed ? output * scales.shape[1] + group
                                                      : group * scales.shape[1] + output;
  float scale;
  CopyAsFloat(scales, index, 1, &scale);
  return scale;
}

int Int4View::Zero(int64_t row, int64_t group) const {
  if (zeros.data == nullptr) return kMiddle;
  const int64_t output = first_row + row;
  const int64_t eight = output / kPerWord, place = output % kPerWord;
  if (zeros.dtype == DType::kI8) {
    return Load<int8_t>(zeros, output * zeros.shape[1] + group) + kMiddle;
  }
  switch (layout) {
    case Layout::kGptq:
      return Nibble(zeros, group * zeros.shape[1] + eight, static_cast<int>(place), zero_addend);
    case Layout::kAwq:
      return Nibble(zeros, group * zeros.shape[1] + eight, kAwqPlace[static_cast<size_t>(place)]);
    case Layout::kCompressed:
      return Nibble(zeros, eight * zeros.shape[1] + group, static_cast<int>(place));
  }
  return kMiddle;
}

void CopyAsFloat(const Int4View& from, int64_t first, int64_t count, float* to) {
  CHECK(first >= 0 && count >= 0 && first + count <= from.rows * from.cols);
  constexpr int64_t kPiece = 256;
  uint8_t levels[kPiece];
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / from.cols, col = (first + done) % from.cols;
    const int64_t to_group_end =
        from.order.data != nullptr ? 1 : from.group_size - col % from.group_size;
    const int64_t size = std::min({count - done, from.cols - col, to_group_end, kPiece});
    from.CopyLevels(row, col, size, levels);
    const int64_t group = from.GroupOf(col);
    const float scale = from.Scale(row, group);
    const int zero = from.Zero(row, group);
    for (int64_t i = 0; i < size; ++i) to[done + i] = scale * static_cast<float>(levels[i] - zero);
    done += size;
  }
}

}  // namespace aril

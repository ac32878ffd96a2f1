#include "tensor/codebook4_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/check.h"
#include "tensor/nf4.h"

namespace aril {
namespace {

constexpr int kE8M0Bias = 127;
constexpr uint8_t kE8M0Nan = 255;

float FloatAt(const TensorView& from, int64_t index) {
  float value;
  CopyAsFloat(from, index, 1, &value);
  return value;
}

// The numbers of a block that is rounded as it is read.
class Block {
 public:
  Block(const TensorView& numbers, int64_t index)
      : size_(static_cast<size_t>(
            std::min(kNf4BlockSize, numbers.num_elements() - index * kNf4BlockSize))) {
    CopyAsFloat(numbers, index * kNf4BlockSize, static_cast<int64_t>(size_), values_.data());
  }
  std::span<const float> values() const { return std::span(values_).first(size_); }

 private:
  std::array<float, kNf4BlockSize> values_;
  size_t size_;
};

// q of `count` elements of the module.
void RoundCodes(const TensorView& numbers, int64_t first, int64_t count, uint8_t* to) {
  std::array<uint8_t, kNf4BlockSize> codes;
  for (const int64_t end = first + count; first < end;) {
    const Block block(numbers, first / kNf4BlockSize);
    RoundToNf4(block.values(), std::span(codes).first(block.values().size()));
    const int64_t in_block = first % kNf4BlockSize;
    const int64_t size = std::min(kNf4BlockSize - in_block, end - first);
    to = std::copy_n(codes.data() + in_block, size, to);
    first += size;
  }
}

}  // namespace

Codebook4View Codebook4View::Nf4Of(const TensorView& numbers) {
  CHECK_EQ(numbers.shape.size(), 2u);
  return {.numbers = numbers,
          .codebook = kNf4,
          .block_size = kNf4BlockSize,
          .rows = numbers.shape[0],
          .cols = numbers.shape[1]};
}

Codebook4View Codebook4View::Rows(int64_t first, int64_t count) const {
  CHECK(first >= 0 && count >= 0 && first + count <= rows);
  Codebook4View part = *this;
  part.first_row += first * row_step;
  part.rows = count;
  return part;
}

void Codebook4View::CopyCodes(int64_t row, int64_t first, int64_t count, uint8_t* to) const {
  const int64_t begin = ElementAt(row, first);
  if (numbers) return RoundCodes(*numbers, begin, count, to);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(codes.data);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t element = begin + i;
    const auto byte = bytes[element / 2];
    to[i] = static_cast<uint8_t>((element % 2 == 0) == low_half_first ? byte & 15 : byte >> 4);
  }
}

float Codebook4View::Scale(int64_t block) const {
  if (numbers) return Nf4Scale(Block(*numbers, block).values());
  if (scales.dtype == DType::kF32) return FloatAt(scales, block);
  const auto byte = static_cast<uint8_t>(scales.data[block]);
  if (!nested) return byte == kE8M0Nan ? NAN : std::ldexp(1.0f, byte - kE8M0Bias);
  // Rounded twice, as by bitsandbytes (functional.py: dequantize_4bit), which keeps such scales in
  // float32 but where it converted the model for a CPU.
  const float product =
      FloatAt(nested->codebook, byte) * FloatAt(nested->scales, block / nested->block_size);
  return product + nested->offset;
}

void CopyAsFloat(const Codebook4View& from, int64_t first, int64_t count, float* to) {
  CHECK(first >= 0 && count >= 0 && first + count <= from.rows * from.cols);
  constexpr int64_t kPiece = 256;
  uint8_t codes[kPiece];
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / from.cols, col = (first + done) % from.cols;
    const int64_t in_block = from.ElementAt(row, col) % from.block_size;
    const int64_t size =
        std::min({count - done, from.cols - col, from.block_size - in_block, kPiece});
    from.CopyCodes(row, col, size, codes);
    const float scale = from.Scale(from.BlockOf(row, col));
    for (int64_t i = 0; i < size; ++i) to[done + i] = scale * from.codebook[codes[i]];
    done += size;
  }
}

}  // namespace aril

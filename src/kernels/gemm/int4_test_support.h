// What rows of weights in four bits stand for, and matrices that have them in a checkpoint's way.

#ifndef ARIL_KERNELS_GEMM_INT4_TEST_SUPPORT_H_
#define ARIL_KERNELS_GEMM_INT4_TEST_SUPPORT_H_

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "kernels/gemm/int4_weights.h"
#include "tensor/int4_view.h"

namespace aril::kernels {

struct Int4Row {
  explicit Int4Row(const std::vector<float>& row)
      : size(row.size()), groups((row.size() + kInt4GroupSize - 1) / kInt4GroupSize) {
    scale = QuantizeToInt4(row, groups);
  }
  Int4Row(float row_scale, std::vector<Int4Group> row_groups, size_t row_size)
      : size(row_size), groups(std::move(row_groups)), scale(row_scale) {}

  double Value(size_t k) const {
    const Int4Group& group = groups[k / kInt4GroupSize];
    return double{scale} * ToFloat(group.factor) * (group.q[k % kInt4GroupSize] - group.zero);
  }
  std::vector<double> Values() const {
    std::vector<double> values;
    for (size_t k = 0; k < size; ++k) values.push_back(Value(k));
    return values;
  }

  size_t size;
  std::vector<Int4Group> groups;
  float scale = 0;
};

// Random levels and zero points, 0 and 15 among them, of n outputs by k inputs, both multiples of
// 8; with scales of 2^-6 to 2^-4, F16 or BF16.
class RandomInt4 {
 public:
  RandomInt4(Int4View::Layout layout, int64_t n, int64_t k, int64_t group_size, DType scales,
             std::mt19937_64& random)
      : layout_(layout), n_(n), k_(k), group_size_(group_size), scale_dtype_(scales) {
    words_.resize(static_cast<size_t>(n * k / 8));
    zeros_.resize(static_cast<size_t>(n * groups() / 8));
    scales_.resize(static_cast<size_t>(n * groups()));
    for (uint32_t& word : words_) word = static_cast<uint32_t>(random());
    for (uint32_t& word : zeros_) word = static_cast<uint32_t>(random());
    std::uniform_real_distribution<float> values(0x1p-6f, 0x1p-4f);
    for (uint16_t& scale : scales_) {
      const float value = values(random);
      scale = scales == DType::kF16 ? ToF16(value).bits : ToBF16(value).bits;
    }
  }

  Int4View view() const {
    const bool by_output = layout_ == Int4View::Layout::kCompressed;
    const Shape words = by_output                            ? Shape{n_, k_ / 8}
                        : layout_ == Int4View::Layout::kGptq ? Shape{k_ / 8, n_}
                                                             : Shape{k_, n_ / 8};
    const Shape zeros = by_output ? Shape{n_ / 8, groups()} : Shape{groups(), n_ / 8};
    const Shape scales = by_output ? Shape{n_, groups()} : Shape{groups(), n_};
    return {.layout = layout_,
            .words = {Bytes(words_), DType::kI32, words},
            .scales = {Bytes(scales_), scale_dtype_, scales},
            .zeros = {Bytes(zeros_), DType::kI32, zeros},
            .group_size = group_size_,
            .rows = n_,
            .cols = k_};
  }

 private:
  int64_t groups() const { return (k_ + group_size_ - 1) / group_size_; }
  template <typename T>
  static const std::byte* Bytes(const std::vector<T>& values) {
    return reinterpret_cast<const std::byte*>(values.data());
  }

  Int4View::Layout layout_;
  int64_t n_, k_, group_size_;
  DType scale_dtype_;
  std::vector<uint32_t> words_, zeros_;
  std::vector<uint16_t> scales_;
};

// The group of each of k inputs, as GPTQ's activation order has them.
inline std::vector<int32_t> RandomOrder(int64_t k, int64_t group_size, std::mt19937_64& random) {
  std::vector<int32_t> groups;
  for (int64_t i = 0; i < k; ++i) groups.push_back(static_cast<int32_t>(i / group_size));
  std::ranges::shuffle(groups, random);
  return groups;
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_INT4_TEST_SUPPORT_H_

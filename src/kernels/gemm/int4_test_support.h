// What rows of weights in four bits stand for.

#ifndef ARIL_KERNELS_GEMM_INT4_TEST_SUPPORT_H_
#define ARIL_KERNELS_GEMM_INT4_TEST_SUPPORT_H_

#include <vector>

#include "kernels/gemm/int4_weights.h"

namespace aril::kernels {

struct Int4Row {
  explicit Int4Row(const std::vector<float>& row)
      : size(row.size()), groups((row.size() + kInt4GroupSize - 1) / kInt4GroupSize) {
    scale = QuantizeToInt4(row, groups);
  }

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

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_INT4_TEST_SUPPORT_H_

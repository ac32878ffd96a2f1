// Operands of the gated delta rule's tests on CPUs and devices.

#ifndef ARIL_KERNELS_GATED_DELTA_GATED_DELTA_TEST_SUPPORT_H_
#define ARIL_KERNELS_GATED_DELTA_GATED_DELTA_TEST_SUPPORT_H_

#include <cmath>
#include <random>
#include <string>

#include "base/strings.h"
#include "kernels/gated_delta/gated_delta.h"
#include "kernels/test_support.h"

namespace aril::kernels {

inline constexpr DeltaShape kDeltaShapes[] = {
    {.num_key_heads = 2, .num_value_heads = 4, .key_dim = 16, .value_dim = 16, .conv_size = 4},
    {.num_key_heads = 1, .num_value_heads = 1, .key_dim = 128, .value_dim = 128, .conv_size = 4},
    {.num_key_heads = 3, .num_value_heads = 3, .key_dim = 7, .value_dim = 45, .conv_size = 2},
    {.num_key_heads = 1, .num_value_heads = 3, .key_dim = 256, .value_dim = 8, .conv_size = 16},
    {.num_key_heads = 1, .num_value_heads = 2, .key_dim = 2, .value_dim = 34, .conv_size = 1},
};

inline std::string Describe(const DeltaShape& s) {
  return StrCat(s.num_key_heads, " of ", s.key_dim, ", ", s.num_value_heads, " of ", s.value_dim);
}

// Of one layer of several.
class DeltaOperands {
 public:
  DeltaOperands(const DeltaShape& shape, int64_t rows, std::mt19937_64& random)
      : layout_{.num_layers = 3,
                .shape = shape,
                // Not a multiple of a matrix's rows.
                .page_bytes = (shape.key_dim + 3) * shape.value_dim * 4 + 4},
        in_(DType::kF32, rows, shape.num_columns(), 1.5, random),
        conv_(DType::kF32, shape.conv_size, shape.num_channels(), 0.7, random, 0),
        heads_(DType::kF32, 2, shape.num_value_heads, 1.0, random, 0),
        norm_(DType::kF32, 1, shape.value_dim, 1.0, random, 0) {
    for (int64_t h = 0; h < shape.num_value_heads; ++h) {
      heads_.Set(0, h, std::exp(heads_.floats().row(0)[h]) * 0.3f);
    }
  }

  const StateLayout& layout() const { return layout_; }
  int64_t rows() const { return in_.view().rows; }
  const TestMatrix& in() const { return in_; }
  const TestMatrix& conv() const { return conv_; }
  const TestMatrix& heads() const { return heads_; }  // decays, then biases
  const TestMatrix& norm() const { return norm_; }
  DeltaCall call() const {
    return {.layer = 1,
            .conv = conv_.floats().data,
            .decay = heads_.floats().row(0),
            .dt_bias = heads_.floats().row(1),
            .norm = norm_.floats().data,
            .norm_eps = 1e-6f};
  }
  DeltaReference Reference() const { return GatedDeltaRef(in_.floats(), call(), layout_.shape); }

 private:
  StateLayout layout_;
  TestMatrix in_, conv_, heads_, norm_;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GATED_DELTA_GATED_DELTA_TEST_SUPPORT_H_

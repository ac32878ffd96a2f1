// The gated delta rule (Yang et al. 2024, "Gated Delta Networks"): linear attention, in which what
// a sequence has seen is a matrix for each head, and not keys and values for each token. With what
// Qwen3.5 puts around it: a short causal convolution before, and a gated norm behind.
// Source: transformers, models/qwen3_5/modeling_qwen3_5.py (torch_recurrent_gated_delta_rule).

#ifndef ARIL_KERNELS_GATED_DELTA_GATED_DELTA_H_
#define ARIL_KERNELS_GATED_DELTA_GATED_DELTA_H_

#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/cpu/context.h"
#include "kernels/gated_delta/delta_shape.h"
#include "kernels/matrix.h"

namespace aril::kernels {

struct DeltaCall {
  int64_t layer = 0;               // of those that have a state
  const float* conv = nullptr;     // [conv_size, num_channels]: the last row is the token's own
  const float* decay = nullptr;    // [num_value_heads], how fast a head forgets: exp(A_log)
  const float* dt_bias = nullptr;  // [num_value_heads]
  const float* norm = nullptr;     // [value_dim]
  float norm_eps = 0;
};

// in [rows, num_columns] fp32 is q, k, v, z, b and a of each row; out [rows, value_size]. Of one
// row and value head, whose q and k are those of key head h · key heads / value heads:
//
//   q, k, v = silu(conv(…));  q = q / |q| / √key_dim;  k = k / |k|
//   S   = e^(-decay · softplus(a + dt_bias)) · S
//   S  += k ⊗ sigmoid(b) · (v - Sᵀk)
//   out = Sᵀq, normed (norm.h) by `norm`, times silu(z), rounded once to out's dtype
//
// S, and what the convolution still sees, are in the pages of a sequence's state, and go on there;
// of one that begins at position 0 they are zero, whatever lies there. Rows of no sequence are not
// written. A token's part is computed in the same order whatever is computed with it.
void GatedDelta(CpuContext& context, MatrixView<const float> in, const DeltaCall& call,
                const StateLayout& layout, std::span<const AttentionSequence> sequences,
                const Matrix& out);

// The oracle in double arithmetic, of one layer and of one sequence from its beginning.
struct DeltaReference {
  std::vector<double> out;  // [rows, value_size]
  // How far from it one in fp32 may be, before it is rounded to its dtype: its roundings, each of
  // half a unit in the last place, followed through.
  std::vector<double> tolerance;
};
DeltaReference GatedDeltaRef(MatrixView<const float> in, const DeltaCall& call,
                             const DeltaShape& shape);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GATED_DELTA_GATED_DELTA_H_

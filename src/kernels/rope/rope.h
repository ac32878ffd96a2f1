// Rotary position embedding (Su et al., 2021), fused with what happens to q, k and v between their
// projections and attention: an optional RMSNorm per head (Qwen3), the rotation of q and k,
// rounding to the model's dtype, and appending K and V to their pages.

#ifndef ARIL_KERNELS_ROPE_ROPE_H_
#define ARIL_KERNELS_ROPE_ROPE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/cpu/context.h"
#include "kernels/matrix.h"

namespace aril::kernels {

// cos and sin of every position and frequency, times a factor, computed in double and rounded once.
class RopeTable {
 public:
  // `inverse_frequencies`: [num_pairs] radians per position, after any scaling.
  RopeTable(const std::vector<double>& inverse_frequencies, int64_t max_positions,
            double factor = 1);

  int64_t max_positions() const { return max_positions_; }
  // Of a head's elements, i and i + num_pairs are rotated together; those from 2 · num_pairs on are
  // not.
  int64_t num_pairs() const { return num_pairs_; }
  // [max_positions, num_pairs], for a device.
  const std::vector<float>& cos() const { return cos_; }
  const std::vector<float>& sin() const { return sin_; }
  const float* Cos(int64_t position) const { return cos_.data() + position * num_pairs_; }
  const float* Sin(int64_t position) const { return sin_.data() + position * num_pairs_; }

 private:
  int64_t num_pairs_;
  int64_t max_positions_;
  std::vector<float> cos_;
  std::vector<float> sin_;
};

struct RopeCall {
  const RopeTable* table = nullptr;
  int64_t num_heads = 0;
  bool gated_queries = false;     // in qkv each head of q is followed by as much that is not q
  const float* q_norm = nullptr;  // [head_dim] or null
  const float* k_norm = nullptr;
  float norm_eps = 0;
  int64_t layer = 0;
};

// qkv [rows, (num_heads + 2 kv_heads) · head_dim] fp32, or with gated queries so many more heads, →
// q [rows, num_heads · head_dim] in its dtype, and K and V of every row into the page of its
// sequence at its position (`sequences`, as for attention).
void RopeAppend(CpuContext& context, MatrixView<const float> qkv, const RopeCall& call,
                const KvLayout& layout, std::span<const AttentionSequence> sequences,
                const Matrix& q);

// The oracle for one head, in double arithmetic: of [head_dim], writes what is rotated.
void RopeRef(const double* in, const std::vector<double>& inverse_frequencies, int64_t position,
             double factor, double* out);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ROPE_ROPE_H_

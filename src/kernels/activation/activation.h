// The gated activation of the MLP (GLU; Shazeer, 2020): f(gate) · up, or a variant of it; the soft
// cap of scores; and the gate of attention's output.

#ifndef ARIL_KERNELS_ACTIVATION_ACTIVATION_H_
#define ARIL_KERNELS_ACTIVATION_ACTIVATION_H_

#include "kernels/activation/activation_tile.h"
#include "kernels/cpu/context.h"
#include "kernels/matrix.h"

namespace aril::kernels {

// out [rows, n] = f(gate_up[:, :n]) · gate_up[:, n:], gate_up [rows, 2 n] fp32, rounded once to
// out's dtype. kClampedSwiglu has a product of its own.
void Glu(CpuContext& context, Activation f, MatrixView<const float> gate_up, const Matrix& out);

// values = cap · tanh(values / cap), cap > 0 (Gemma 2: of logits).
void Softcap(CpuContext& context, float cap, MatrixView<float> values);

// values [rows, heads · head_dim] *= sigmoid(gate), rounded once to their dtype. Of each head
// `gated` [rows, at least 2 · heads · head_dim] fp32 has a query, and behind it its gate (Qwen3.5).
void GateHeads(CpuContext& context, MatrixView<const float> gated, int64_t head_dim,
               const Matrix& values);

// The oracles for one element, in double arithmetic.
double GluRef(Activation f, double gate, double up);
double SoftcapRef(double cap, double value);
double GateRef(double gate, double value);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ACTIVATION_ACTIVATION_H_

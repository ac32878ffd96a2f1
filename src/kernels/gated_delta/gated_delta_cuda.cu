// A row's convolution is a block's, which then norms its heads of q and k, a warp each. A head's
// matrix is a block's for each 32 columns, 8 of them a warp's: four lanes have a column, and each
// keeps every fourth key's element in its registers over all rows of the sequence. So nothing waits
// for another warp, and a row's part is added up in one order: four chains, then a tree.

#include <math.h>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/reduce.h"
#include "kernels/gated_delta/gated_delta_cuda.h"
#include "kernels/gated_delta/gated_delta_tile.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr float kNormEps = 1e-6f;  // of q and k
// Of a warp of the scan.
constexpr int kColumns = 8;
constexpr int kLanesOfColumn = kWarpSize / kColumns;
constexpr int kBlockColumns = kWarps * kColumns;
// Keys of a lane: of heads of up to 128, or up to 256.
constexpr int kFewKeys = 128 / kLanesOfColumn;
constexpr int kManyKeys = static_cast<int>(kMaxDeltaKeyDim) / kLanesOfColumn;

// The parts of the scratch.
ARIL_DEVICE float* Convolved(const GatedDeltaArgs& args, int row) {
  return args.scratch + static_cast<int64_t>(row) * args.layer.num_channels;
}
ARIL_DEVICE float* Results(const GatedDeltaArgs& args, int row) {
  const int64_t size = args.layer.num_value_heads * args.layer.value_dim;
  return args.scratch + static_cast<int64_t>(args.rows) * args.layer.num_channels + row * size;
}
// Decays, then betas.
ARIL_DEVICE float* Gates(const GatedDeltaArgs& args, int row) {
  return Results(args, args.rows) + static_cast<int64_t>(row) * 2 * args.layer.num_value_heads;
}

ARIL_DEVICE float* StateRow(const DeltaLayer& layer, const DeltaSequence& sequence, int64_t row) {
  const auto page = row / layer.rows_per_page, in_page = row % layer.rows_per_page;
  return reinterpret_cast<float*>(sequence.state[page]) + in_page * layer.value_dim;
}

// Where the convolution's input at a position has a channel.
ARIL_DEVICE float* InputAt(const DeltaLayer& layer, const DeltaSequence& sequence, int64_t position,
                           int channel) {
  const int64_t row = layer.first_input_row + position % layer.conv_size * layer.rows_per_input +
                      channel / layer.value_dim;
  return StateRow(layer, sequence, row) + channel % layer.value_dim;
}

ARIL_DEVICE float Silu(float x) { return x / (1.0f + expf(-x)); }

ARIL_DEVICE float Softplus(float x) { return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)); }

ARIL_DEVICE float Convolve(const GatedDeltaArgs& args, const DeltaSequence& sequence, int row,
                           int channel) {
  const DeltaLayer& layer = args.layer;
  float sum = 0;
  for (int i = 0; i < layer.conv_size; ++i) {
    const int seen = row - sequence.first_row - (layer.conv_size - 1) + i;  // of the sequence's
    const int64_t position = sequence.first_position + seen;
    if (position < 0) continue;
    const float input = seen >= 0 ? args.in[(sequence.first_row + seen) * args.in_stride + channel]
                                  : *InputAt(layer, sequence, position, channel);
    sum = MultiplyAdd(input, args.conv[i * layer.num_channels + channel], sum);
  }
  return Silu(sum);
}

// x = x / sqrt(Σ x² + eps) · scale, by a warp.
ARIL_DEVICE void NormalizeHead(float* x, int size, float scale) {
  const int lane = ThreadIdx() % kWarpSize;
  float squares = 0;
  for (int i = lane; i < size; i += kWarpSize) squares = MultiplyAdd(x[i], x[i], squares);
  const float inverse = 1.0f / sqrtf(WarpSum(squares) + kNormEps);
  for (int i = lane; i < size; i += kWarpSize) x[i] = x[i] * inverse * scale;
}

ARIL_KERNEL(kThreads)
DeltaPrepareKernel(ARIL_PARAMETER GatedDeltaArgs args) {
  FollowPreviousKernel();
  const int row = BlockIdx();
  const int index = args.sequence_of_row[row];
  if (index < 0) return;
  const DeltaSequence sequence = args.sequences[index];
  const DeltaLayer& layer = args.layer;
  float* const out = Convolved(args, row);
  for (int c = ThreadIdx(); c < layer.num_channels; c += kThreads) {
    out[c] = Convolve(args, sequence, row, c);
  }
  const int heads = layer.num_value_heads;
  const float* const b = args.in + row * args.in_stride + layer.num_channels +
                         static_cast<int64_t>(heads) * layer.value_dim;
  for (int h = ThreadIdx(); h < heads; h += kThreads) {
    const float rate = args.decay[h] * Softplus(b[heads + h] + args.dt_bias[h]);
    Gates(args, row)[h] = expf(-rate);
    Gates(args, row)[heads + h] = 1.0f / (1.0f + expf(-b[h]));
  }
  SyncThreads();
  const float query_scale = 1.0f / sqrtf(static_cast<float>(layer.key_dim));
  for (int head = ThreadIdx() / kWarpSize; head < 2 * layer.num_key_heads; head += kWarps) {
    NormalizeHead(out + head * layer.key_dim, layer.key_dim,
                  head < layer.num_key_heads ? query_scale : 1.0f);
  }
}

// The last inputs of a sequence's rows, to where the next step finds them: those of the channels
// that are this thread's, of so many threads.
ARIL_DEVICE void KeepInputs(const GatedDeltaArgs& args, const DeltaSequence& sequence, int thread,
                            int num_threads) {
  const DeltaLayer& layer = args.layer;
  const int kept = sequence.num_rows < layer.conv_size ? sequence.num_rows : layer.conv_size;
  for (int i = sequence.num_rows - kept; i < sequence.num_rows; ++i) {
    const float* const in = args.in + (sequence.first_row + i) * args.in_stride;
    for (int c = thread; c < layer.num_channels; c += num_threads) {
      *InputAt(layer, sequence, sequence.first_position + i, c) = in[c];
    }
  }
}

// The sum of the four lanes of a column, in all of them.
ARIL_DEVICE float ColumnSum(float value) {
#pragma unroll
  for (int mask = kColumns * kLanesOfColumn / 2; mask >= kColumns; mask /= 2) {
    value += ShuffleXor(value, mask);
  }
  return value;
}

template <int kKeys>
ARIL_KERNEL(kThreads)
DeltaScanKernel(ARIL_PARAMETER GatedDeltaArgs args) {
  FollowPreviousKernel();
  const DeltaLayer& layer = args.layer;
  const int tiles = (layer.value_dim + kBlockColumns - 1) / kBlockColumns;
  const int blocks = layer.num_value_heads * tiles;  // of a sequence
  const DeltaSequence sequence = args.sequences[BlockIdx() / blocks];
  if (sequence.num_rows == 0) return;
  const int block = BlockIdx() % blocks;
  KeepInputs(args, sequence, block * kThreads + ThreadIdx(), blocks * kThreads);
  const int head = block / tiles;
  const int lane = ThreadIdx() % kWarpSize;
  const int part = lane / kColumns;  // of the keys
  const int column =
      block % tiles * kBlockColumns + ThreadIdx() / kWarpSize * kColumns + lane % kColumns;
  // All lanes take part in sums; those behind the last column are of the last one, and leave
  // nothing.
  const bool is_column = column < layer.value_dim;
  const int from = is_column ? column : layer.value_dim - 1;
  const int64_t matrix = layer.first_matrix_row + static_cast<int64_t>(head) * layer.key_dim;
  const bool is_new = sequence.first_position == 0 && sequence.repeats == 0;
  float s[kKeys];
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    const int key = j * kLanesOfColumn + part;
    const bool is_there = key < layer.key_dim && !is_new;
    s[j] = is_there ? StateRow(layer, sequence, matrix + key)[from] : 0.0f;
  }
  const int key_head = head / (layer.num_value_heads / layer.num_key_heads);
  for (int i = 0; i < sequence.num_rows; ++i) {
    const int row = sequence.first_row + i;
    const float* const q = Convolved(args, row) + key_head * layer.key_dim;
    const float* const k = q + layer.num_key_heads * layer.key_dim;
    if (sequence.repeats == 0) {
      const float decay = Gates(args, row)[head];
      const float beta = Gates(args, row)[layer.num_value_heads + head];
      float seen = 0;
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        const int key = j * kLanesOfColumn + part;
        if (key < layer.key_dim) seen = MultiplyAdd(k[key], s[j], seen);
      }
      const float v = Convolved(
          args, row)[2 * layer.num_key_heads * layer.key_dim + head * layer.value_dim + from];
      const float delta = (v - ColumnSum(seen) * decay) * beta;
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        const int key = j * kLanesOfColumn + part;
        if (key < layer.key_dim) s[j] = MultiplyAdd(k[key], delta, decay * s[j]);
      }
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int key = j * kLanesOfColumn + part;
      if (key < layer.key_dim) sum = MultiplyAdd(q[key], s[j], sum);
    }
    sum = ColumnSum(sum);
    if (part == 0 && is_column) Results(args, row)[head * layer.value_dim + column] = sum;
  }
  if (sequence.repeats != 0 || !is_column) return;
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    const int key = j * kLanesOfColumn + part;
    if (key < layer.key_dim) StateRow(layer, sequence, matrix + key)[column] = s[j];
  }
}

// A warp for each head of each row.
template <typename T>
ARIL_KERNEL(kThreads)
DeltaFinishKernel(ARIL_PARAMETER GatedDeltaArgs args) {
  FollowPreviousKernel();
  const DeltaLayer& layer = args.layer;
  const int64_t index = static_cast<int64_t>(BlockIdx()) * kWarps + ThreadIdx() / kWarpSize;
  if (index >= static_cast<int64_t>(args.rows) * layer.num_value_heads) return;  // the whole warp
  const int row = static_cast<int>(index / layer.num_value_heads);
  if (args.sequence_of_row[row] < 0) return;
  const auto first = index % layer.num_value_heads * layer.value_dim;
  const int lane = ThreadIdx() % kWarpSize;
  const float* const x = Results(args, row) + first;
  const float* const z = args.in + row * args.in_stride + layer.num_channels + first;
  float squares = 0;
  for (int i = lane; i < layer.value_dim; i += kWarpSize) {
    squares = MultiplyAdd(x[i], x[i], squares);
  }
  const float mean = WarpSum(squares) / static_cast<float>(layer.value_dim);
  const float scale = 1.0f / sqrtf(mean + args.norm_eps);
  auto* const out =
      reinterpret_cast<typename T::Element*>(args.out) + row * args.out_stride + first;
  for (int i = lane; i < layer.value_dim; i += kWarpSize) {
    out[i] = T::Narrow(x[i] * scale * args.norm[i] * Silu(z[i]));
  }
}

}  // namespace

int GatedDelta(const CudaContext& context, DType dtype, const GatedDeltaArgs& args) {
  if (args.rows == 0 || args.num_sequences == 0) return 0;
  const DeltaLayer& layer = args.layer;
  if (const int error = LaunchKernel(context, {args.rows, kThreads, 0}, DeltaPrepareKernel, args)) {
    return error;
  }
  const int tiles = (layer.value_dim + kBlockColumns - 1) / kBlockColumns;
  const int blocks = args.num_sequences * layer.num_value_heads * tiles;
  const bool has_few = layer.key_dim <= kFewKeys * kLanesOfColumn;
  if (const int error =
          LaunchKernel(context, {blocks, kThreads, 0},
                       has_few ? DeltaScanKernel<kFewKeys> : DeltaScanKernel<kManyKeys>, args)) {
    return error;
  }
  const int warps = args.rows * layer.num_value_heads;
  return LaunchFor(dtype, context, {(warps + kWarps - 1) / kWarps, kThreads, 0},
                   DeltaFinishKernel<F32>, DeltaFinishKernel<Bf16>, DeltaFinishKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

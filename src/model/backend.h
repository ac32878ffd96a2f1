// Where a model is computed: on the CPU, or on a GPU.
//
// A backend has the weights, and memory for the rows of one step. model.h says in which order its
// operators run; each names the places that it reads and writes:
//
//   residual  [rows, hidden] fp32         output  [rows, columns of a projection group] fp32
//   input     what enters a product       query   the rotated heads; both in the model's dtype
//
// A device may take its time: an operator that has returned need not have run. An error that comes
// from a device is Internal, and the device is of no use after it (ExitOnDeviceError).

#ifndef ARIL_MODEL_BACKEND_H_
#define ARIL_MODEL_BACKEND_H_

#include <cstdint>
#include <functional>
#include <span>

#include "adapters/resident_adapter.h"
#include "base/status.h"
#include "kernels/attention/attention.h"
#include "kernels/matrix.h"
#include "model/projection_group.h"
#include "tensor/safetensors.h"

namespace aril {

// Consecutive rows that use one adapter, weighted. Rows of no segment use the base model alone;
// rows of several, all of them, in their order.
struct BatchSegment {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  const ResidentAdapter* adapter = nullptr;
  float weight = 1;
};

// The rows of one step.
struct ForwardBatch {
  std::span<const int32_t> tokens;                        // [num_rows], inside the vocabulary
  std::span<const kernels::AttentionSequence> sequences;  // cover all rows
  std::span<const BatchSegment> segments;
};

enum class LayerNorm { kInput, kPostAttention };

// Used by one thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;

  // The files that the weights came from.
  virtual const Checkpoint& checkpoint() const = 0;

  // The rows that everything below is about. What `batch` points to must stay until the operators
  // have returned; pages and adapters, until Finish has.
  virtual Status Begin(const ForwardBatch& batch) = 0;

  // Runs `operators`, which calls those below, up to Logits, always the same in the same order: or
  // does again what they did in an earlier step of this shape.
  virtual Status Run(const std::function<Status()>& operators) { return operators(); }

  // residual = the tokens' embeddings, with the adapters' own.
  virtual Status Embed() = 0;
  // residual += output, but not before layer 0; input = its norm.
  virtual Status AddNorm(int64_t layer, LayerNorm norm) = 0;
  // output = input · Wᵀ + bias, plus the adapters' parts.
  virtual Status Project(int64_t layer, ProjectionGroup group) = 0;
  // output is q, k and v: query = the rotated q; k, rotated, and v go to the sequences' pages.
  virtual Status RopeAppend(int64_t layer) = 0;
  // input = attention of query over the sequences' pages.
  virtual Status Attention(int64_t layer) = 0;
  // output is gate and up: input = SiLU(gate) · up.
  virtual Status SiluMul() = 0;
  // logits [rows.size(), vocab] of residual + output at `rows`, ascending and at most
  // kMaxLogitRows, with the adapters' parts. The view is valid until the next call.
  virtual StatusOr<MatrixView<const float>> Logits(std::span<const int32_t> rows) = 0;

  // Whether it finds the largest logits by itself, with Greedy: for each of `rows`, as above, the
  // first token that has the largest logit, or -1 where a logit is no number or none is finite. The
  // span is valid until the next call.
  virtual bool has_greedy() const { return false; }
  virtual StatusOr<std::span<const int32_t>> Greedy(std::span<const int32_t>) {
    return Unimplemented("the backend leaves sampling to the host");
  }

  // Waits until everything has been run that was asked for.
  virtual Status Finish() = 0;

  // Bounds the logits in memory: 64 rows of a 128 k vocabulary are 32 MiB.
  static constexpr int64_t kMaxLogitRows = 64;
};

// No step can follow: the process ends, and says why. Whoever started it starts another one, and in
// a cluster the gateways give its sequences to other runners.
[[noreturn]] void ExitOnDeviceError(const Status& error);

}  // namespace aril

#endif  // ARIL_MODEL_BACKEND_H_

// Where a model is computed: on the CPU, or on a GPU.
//
// A backend has the weights, and memory for the rows of one step. model.h says in which order its
// operators run; each names the places that it reads and writes:
//
//   residual  [rows, hidden] fp32         output  [rows, columns of a product] fp32
//   input     what enters a product       query   the rotated heads; both in the model's dtype
//
// A device may take its time: an operator that has returned need not have run, and the next step
// may begin while this one runs. Steps run in the order in which they began. An error that comes
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
#include "kernels/sampling/sampling_cuda.h"
#include "model/projection_group.h"
#include "tensor/safetensors.h"

namespace aril {

// Consecutive rows that use one adapter, weighted. Rows of no segment use the base model alone;
// rows of several, all of them, in their order. In no order of rows: one may begin within another.
struct BatchSegment {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  const ResidentAdapter* adapter = nullptr;
  float weight = 1;
};

// The rows of one step.
struct ForwardBatch {
  // [num_rows], inside the vocabulary, the base model's or that of an adapter of the row; or -1 - i
  // for what the i-th choice of the step before is.
  std::span<const int32_t> tokens;
  std::span<const kernels::AttentionSequence> sequences;  // cover all rows
  std::span<const BatchSegment> segments;
};

// CHECKs that tokens lie in vocabularies; the base model's is of `vocab_size`.
void CheckTokens(const ForwardBatch& batch, int64_t vocab_size);

// The largest of the base model's vocabulary, which `vocab_size` is, and those of the adapters of
// segments.
int64_t WidestVocab(std::span<const BatchSegment> segments, int64_t vocab_size);

// Of what a layer's attention reads, and its MLP.
enum class LayerNorm { kAttention, kMlp };

// Used by one thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;

  // The files that the weights came from.
  virtual const Checkpoint& checkpoint() const = 0;

  // The rows that everything below is about. What `batch` points to must stay until the operators
  // have returned; pages and adapters, until Wait has, of this step. At most kMaxStepsUnderWay may
  // have begun that have not been waited for.
  virtual Status Begin(const ForwardBatch& batch) = 0;

  // Runs `operators`, which calls those below, up to Logits, always the same in the same order: or
  // does again what they did in an earlier step of this shape.
  virtual Status Run(const std::function<Status()>& operators) { return operators(); }

  // residual = the tokens' embeddings, with the adapters' own, scaled where the model does.
  virtual Status Embed() = 0;
  // residual += output, normed where the model does, but not before layer 0; input = its norm.
  virtual Status AddNorm(int64_t layer, LayerNorm norm) = 0;
  // output = input · Wᵀ + bias, plus the adapters' parts. kDeltaGates' lie behind kDeltaIn's.
  virtual Status Project(int64_t layer, ProjectionGroup group) = 0;
  // output is q, k and v, with gates of q where the model has them: query = the rotated q; k,
  // rotated, and v go to the sequences' pages.
  virtual Status RopeAppend(int64_t layer) = 0;
  // input = attention of query over the sequences' pages.
  virtual Status Attention(int64_t layer) = 0;
  // input *= the gates of heads in output, of kQkv.
  virtual Status GateHeads() = 0;
  // output is what kDeltaIn and kDeltaGates give: input = linear attention of it, and of what the
  // sequences' states have of it, which go on.
  virtual Status GatedDelta(int64_t layer) = 0;
  // output is gate and up: input = f(gate) · up.
  virtual Status Glu() = 0;
  // output = what a layer's mixture of experts makes of input: in place of both projections of the
  // MLP, and what is between them.
  virtual Status Experts(int64_t layer) = 0;
  // logits [rows.size(), vocab] of residual + output at `rows`, ascending and at most
  // kMaxLogitRows, with the adapters' parts, capped where the model does. With vocabularies of
  // adapters' own, it is as wide as the widest: what a row has behind its own means nothing. The
  // view is valid until the next call.
  virtual StatusOr<MatrixView<const float>> Logits(std::span<const int32_t> rows) = 0;
  // What Logits multiplies by lm_head, before it is rounded: [rows.size(), hidden], of rows as
  // there, and as long valid. Divided by ModelSpec::logits_scaling.
  virtual StatusOr<MatrixView<const float>> HiddenStates(std::span<const int32_t> rows) = 0;

  // Whether it chooses tokens by itself, with Choose: for each of `rows`, as above, as `how` says
  // of it. Of all calls in a step together, these are the choices 0, 1, …
  virtual bool chooses_tokens() const { return false; }
  virtual Status Choose(std::span<const int32_t> /*rows*/,
                        std::span<const kernels::SampleRow> /*how*/) {
    return Unimplemented("the backend leaves sampling to the host");
  }

  // Nothing more is asked for in this step.
  virtual Status End() = 0;
  // Until the first step that has ended and not been waited for has been run. Returns its choices:
  // tokens, or why there is none (kernels/sampling/sampling_cuda.h). Valid until the next but one
  // step begins.
  virtual StatusOr<std::span<const int32_t>> Wait() = 0;

  static constexpr int kMaxStepsUnderWay = 2;

  // Bounds the logits in memory: 64 rows of a 128 k vocabulary are 32 MiB, and 4 more for what
  // adapters may add to it.
  static constexpr int64_t kMaxLogitRows = 64;
};

// No step can follow: the process ends, and says why. Whoever started it starts another one, and in
// a cluster the gateways give its sequences to other runners.
[[noreturn]] void ExitOnDeviceError(const Status& error);

}  // namespace aril

#endif  // ARIL_MODEL_BACKEND_H_

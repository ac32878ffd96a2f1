// What `aril bench kernels` gives kernels to do, on whatever device: sizes and batches, and what
// they must move and calculate at least.

#ifndef ARIL_APPS_BENCH_KERNEL_WORK_H_
#define ARIL_APPS_BENCH_KERNEL_WORK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench_popularity.h"
#include "kernels/gemm/weight_format.h"
#include "spec/model_spec.h"
#include "tensor/buffer.h"
#include "tensor/weight_view.h"

namespace aril {

// What a call of a kernel does, on average.
struct KernelWork {
  std::string kernel;    // "gemm", "lora", "lora, loop over adapters", …
  std::string operands;  // "qkv 2048 to 2560", "2048 to 2048 rank 16 distinct", …
  int64_t rows = 0;
  kernels::WeightFormat format = kernels::WeightFormat::kBF16;  // of what it multiplies with
  double bytes = 0;
  double operations = 0;
  // The case of the same list that it is an alternative to; itself if it is none.
  size_t compared_to = 0;
};

// A product's: x [rows, in] · Wᵀ, W [out, in].
struct MatrixSize {
  std::string name;
  int64_t in = 0;
  int64_t out = 0;
};

// The products of a layer, as they are packed; of the layers of both kinds, where there are such.
std::vector<MatrixSize> LayerProducts(const ModelSpec& spec);
// Of these, an MLP's: in a mixture each expert's.
std::vector<MatrixSize> MlpProducts(const ModelSpec& spec);

// "q", "o", "gate", "down": what adapters can be measured on.
const std::vector<std::string>& BenchLoraProjections();
// Which of these adapters change in a model: not those of experts.
bool IsAdapted(const ModelSpec& spec, const std::string& name);
// `name` is one of these.
MatrixSize AdaptedProjection(const ModelSpec& spec, const std::string& name);

// Bytes and operations are those of W alone, and of all rows.
KernelWork GemmWork(const MatrixSize& size, kernels::WeightFormat format, int64_t rows);

struct LoraCasesOptions {
  std::vector<int64_t> ranks;  // of adapters, in turns
  std::vector<int64_t> rows;   // of batches
  // How the rows of a batch share adapters: as popular as this, or so many rows with each.
  std::vector<PopularityKind> popularities;
  std::vector<int64_t> segment_rows;
};

// A batch of rows, of which each adapter has its share.
struct LoraBatchShape {
  std::string name;  // "distinct", "3 rows each"
  int64_t rows = 0;
  std::vector<int64_t> shares;
};
std::vector<LoraBatchShape> LoraBatches(const LoraCasesOptions& options);

// Bytes and operations are those of the adapters alone, of mean rank.
KernelWork LoraWork(const MatrixSize& size, const std::vector<int64_t>& ranks,
                    const LoraBatchShape& batch);

// Sequences of so many tokens, whose last `rows_each` are computed.
struct AttentionBatchShape {
  std::string name;
  int64_t sequences = 0;
  int64_t rows_each = 0;
  int64_t context = 0;
};

// `sequences` of them decode, with so many tokens each; and one computes a prompt of
// `prefill_tokens` (0: none).
std::vector<AttentionBatchShape> AttentionBatches(const std::vector<int64_t>& contexts,
                                                  int64_t sequences, int64_t prefill_tokens);

// Bytes are those of K and V alone; BF16.
KernelWork AttentionWork(const ModelSpec& spec, const AttentionBatchShape& batch);

// Of the gated delta rule, which does not know how long a sequence is. Bytes are those of its
// matrices, read and written; fp32.
KernelWork DeltaWork(const LinearAttentionSpec& linear, const AttentionBatchShape& batch);

// Small finite values of either sign in BF16.
Buffer SmallValues(int64_t size_bytes);

// What weights of a format are made of: such values, but of kFloat8 and codes themselves, with
// scales of blocks of 128 by 128, or of a group's neighbours.
class SmallWeights {
 public:
  SmallWeights(int64_t out, int64_t in, kernels::WeightFormat format);
  WeightView view() const;

 private:
  int64_t out_, in_;
  kernels::WeightFormat format_;
  Buffer values_, scales_;
};

}  // namespace aril

#endif  // ARIL_APPS_BENCH_KERNEL_WORK_H_

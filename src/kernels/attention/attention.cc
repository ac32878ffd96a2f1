#include "kernels/attention/attention.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/rope/rope_tile.h"

namespace aril::kernels {
namespace {

// Queries per task: enough work to be worth claiming, few enough that threads share a long prefill.
constexpr int64_t kTaskQueries = 64;
// Tasks that a thread should have to choose from before kv heads are put together into one.
constexpr int64_t kTasksPerThread = 4;

struct Task {
  const AttentionSequence* sequence;
  int64_t kv_head;  // the first of num_kv_heads
  int64_t num_kv_heads;
  int64_t first_query;
  int64_t num_queries;
};

std::vector<Task> MakeTasks(std::span<const AttentionSequence> sequences, int64_t group,
                            int64_t num_kv_heads, int num_threads) {
  const int64_t heads_together = std::clamp<int64_t>(
      static_cast<int64_t>(sequences.size()) * num_kv_heads / (num_threads * kTasksPerThread), 1,
      kAttentionHeads);
  std::vector<Task> tasks;
  for (const AttentionSequence& sequence : sequences) {
    const int64_t queries = sequence.num_rows * group;
    const int64_t heads_each = queries <= kAttentionHeadQueries ? heads_together : 1;
    for (int64_t first = 0; first < queries; first += kTaskQueries) {
      for (int64_t head = 0; head < num_kv_heads; head += heads_each) {
        tasks.push_back({&sequence, head, std::min(heads_each, num_kv_heads - head), first,
                         std::min(kTaskQueries, queries - first)});
      }
    }
  }
  return tasks;
}

}  // namespace

void Attention(CpuContext& context, const ConstMatrix& q, const AttentionCall& call,
               const KvLayout& layout, std::span<const AttentionSequence> sequences,
               const Matrix& out) {
  CHECK_EQ(call.num_heads % layout.num_kv_heads, 0);
  CHECK_EQ(q.cols, call.num_heads * layout.head_dim);
  CHECK_EQ(q.dtype, layout.dtype);
  CHECK_EQ(out.cols, q.cols);
  CHECK_EQ(out.stride, q.stride);
  CHECK_LE(layout.head_dim, kMaxHeadDim);
  CHECK(call.scale > 0 && call.softcap >= 0);
  const int64_t group = call.num_heads / layout.num_kv_heads;
  const CpuKernels& kernels = context.kernels();
  const AttentionKernel& kernel =
      q.dtype == DType::kF32 ? kernels.attention_f32 : kernels.attention_bf16;
  const auto tasks =
      MakeTasks(sequences, group, layout.num_kv_heads, context.threads().num_threads());
  context.threads().ParallelFor(static_cast<int64_t>(tasks.size()), [&](int64_t index) {
    const Task& task = tasks[static_cast<size_t>(index)];
    const int64_t head_offset = task.kv_head * group * layout.row_bytes();
    const int64_t end = task.first_query + task.num_queries;
    for (int64_t first = task.first_query; first < end; first += kernel.tile_queries) {
      kernel.run({.q = q.row(task.sequence->first_row) + head_offset,
                  .out = out.row(task.sequence->first_row) + head_offset,
                  .row_stride = q.stride,
                  .group = group,
                  .first_query = first,
                  .num_queries = std::min(kernel.tile_queries, end - first),
                  .num_kv_heads = task.num_kv_heads,
                  .first_position = task.sequence->first_position,
                  .window = call.sliding_window.value_or(std::numeric_limits<int32_t>::max()),
                  .scale = call.scale,
                  .softcap = call.softcap,
                  .sinks = call.sinks == nullptr ? nullptr : call.sinks + task.kv_head * group,
                  .head_dim = layout.head_dim,
                  .pages = task.sequence->pages.data(),
                  .page_tokens = layout.page_tokens,
                  .key_offset = layout.KeyOffset(call.layer, task.kv_head),
                  .value_offset = layout.ValueOffset(call.layer, task.kv_head)});
    }
  });
}

}  // namespace aril::kernels

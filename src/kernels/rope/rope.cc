#include "kernels/rope/rope.h"

#include <cmath>

#include "base/check.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/rope/rope_tile.h"

namespace aril::kernels {
namespace {

// Everything that is the same for all rows of a call.
struct Job {
  const RopeCall& call;
  const KvLayout& layout;
  MatrixView<const float> qkv;
  Matrix q;
  int64_t query_stride;  // from a head of q to the next
  RopeHeadFunction run;
};

void RunRow(const Job& job, const AttentionSequence& sequence, int64_t row_of_sequence) {
  const KvLayout& layout = job.layout;
  const int64_t row = sequence.first_row + row_of_sequence;
  const int64_t position = sequence.first_position + row_of_sequence;
  RopeHead head{.in = job.qkv.row(row),
                .head_dim = layout.head_dim,
                .norm_weight = job.call.q_norm,
                .norm_eps = job.call.norm_eps,
                .num_pairs = job.call.table->num_pairs(),
                .cos = job.call.table->Cos(position),
                .sin = job.call.table->Sin(position),
                .out = job.q.row(row)};
  for (int64_t h = 0; h < job.call.num_heads; ++h) {
    head.out = job.q.row(row) + h * layout.row_bytes();
    job.run(head);
    head.in += job.query_stride;
  }
  std::byte* page = sequence.pages[static_cast<size_t>(position / layout.page_tokens)];
  const int64_t slot = position % layout.page_tokens * layout.row_bytes();
  head.norm_weight = job.call.k_norm;
  for (int64_t h = 0; h < layout.num_kv_heads; ++h) {
    head.out = page + layout.KeyOffset(job.call.layer, h) + slot;
    job.run(head);
    head.in += layout.head_dim;
  }
  head.norm_weight = nullptr;
  head.cos = nullptr;
  for (int64_t h = 0; h < layout.num_kv_heads; ++h) {
    head.out = page + layout.ValueOffset(job.call.layer, h) + slot;
    job.run(head);
    head.in += layout.head_dim;
  }
}

}  // namespace

RopeTable::RopeTable(const std::vector<double>& inverse_frequencies, int64_t max_positions,
                     double factor)
    : num_pairs_(static_cast<int64_t>(inverse_frequencies.size())), max_positions_(max_positions) {
  for (int64_t position = 0; position < max_positions; ++position) {
    for (const double frequency : inverse_frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      cos_.push_back(static_cast<float>(factor * std::cos(angle)));
      sin_.push_back(static_cast<float>(factor * std::sin(angle)));
    }
  }
}

void RopeAppend(CpuContext& context, MatrixView<const float> qkv, const RopeCall& call,
                const KvLayout& layout, std::span<const AttentionSequence> sequences,
                const Matrix& q) {
  CHECK_EQ(q.cols, call.num_heads * layout.head_dim);
  const int64_t query_stride = (call.gated_queries ? 2 : 1) * layout.head_dim;
  CHECK_EQ(qkv.cols, call.num_heads * query_stride + 2 * layout.num_kv_heads * layout.head_dim);
  CHECK_EQ(q.dtype, layout.dtype);
  CHECK_LE(layout.head_dim, kMaxHeadDim);
  CHECK_LE(2 * call.table->num_pairs(), layout.head_dim);
  for (const AttentionSequence& sequence : sequences) {
    const int64_t end = sequence.first_position + sequence.num_rows;
    CHECK_LE(end, call.table->max_positions());
    CHECK_LE(end, static_cast<int64_t>(sequence.pages.size()) * layout.page_tokens);
  }
  const CpuKernels& kernels = context.kernels();
  const Job job{.call = call,
                .layout = layout,
                .qkv = qkv,
                .q = q,
                .query_stride = query_stride,
                .run = q.dtype == DType::kF32 ? kernels.rope_head_f32 : kernels.rope_head_bf16};
  // Rows of a long prefill are spread over the threads; a decode is one row.
  constexpr int64_t kChunkRows = 16;
  for (const AttentionSequence& sequence : sequences) {
    if (sequence.num_rows == 1) continue;
    const int64_t chunks = (sequence.num_rows + kChunkRows - 1) / kChunkRows;
    context.threads().ParallelFor(chunks, [&](int64_t chunk) {
      const int64_t end = std::min((chunk + 1) * kChunkRows, int64_t{sequence.num_rows});
      for (int64_t row = chunk * kChunkRows; row < end; ++row) RunRow(job, sequence, row);
    });
  }
  context.threads().ParallelFor(static_cast<int64_t>(sequences.size()), [&](int64_t index) {
    const AttentionSequence& sequence = sequences[static_cast<size_t>(index)];
    if (sequence.num_rows == 1) RunRow(job, sequence, 0);
  });
}

}  // namespace aril::kernels

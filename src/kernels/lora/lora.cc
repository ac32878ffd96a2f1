#include "kernels/lora/lora.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {
namespace {

// Batch rows of one task: long prefill segments are cut so that threads share them.
constexpr int64_t kTaskRows = 64;
// Columns of one expand task: a row of fp32 y of this width stays in L1 from one group of ranks to
// the next.
constexpr int64_t kTaskCols = 2048;

// Hands out the addresses of a matrix's rows, in order from `first_row` on.
class RowCursor {
 public:
  explicit RowCursor(const LoraMatrix& matrix, int64_t first_row = 0) : matrix_(&matrix) {
    const auto after = std::ranges::upper_bound(matrix.runs, first_row, {}, &MatrixRun::first_row);
    run_ = static_cast<size_t>(after - matrix.runs.begin()) - 1;
  }

  const std::byte* At(int32_t row) {
    while (row >= run().first_row + run().num_rows) ++run_;
    return run().data + (row - run().first_row) * matrix_->row_stride_bytes;
  }

 private:
  const MatrixRun& run() const { return matrix_->runs[run_]; }

  const LoraMatrix* matrix_;
  size_t run_ = 0;
};

void CheckMatrix(const LoraMatrix& matrix, int32_t rank) {
  int32_t next = 0;
  for (const MatrixRun& run : matrix.runs) {
    CHECK_EQ(run.first_row, next);
    next += run.num_rows;
  }
  CHECK_EQ(next, rank);
}

// `matrix`: which of an adapter's the operator reads.
void CheckCall(const LoraCall& call, int64_t rows, LoraMatrix LoraWeights::*matrix) {
  CHECK(call.dtype == DType::kF32 || call.dtype == DType::kBF16);
  for (const LoraSegment& segment : call.segments) {
    CHECK_GE(segment.first_row, 0);
    CHECK_LE(int64_t{segment.first_row} + segment.num_rows, rows);
    CHECK_EQ(segment.targets.size(), call.targets.size());
    for (const LoraWeights& weights : segment.targets) {
      CheckMatrix(weights.*matrix, weights.rank);
      if (!weights.gain.runs.empty()) CheckMatrix(weights.gain, 2);
    }
  }
}

// A piece of work: some rows of one segment at one target, and some of its ranks (shrink) or
// columns (expand).
struct Task {
  const LoraSegment* segment;
  size_t target;
  int64_t v_offset;  // of (segment, target) in V
  int64_t first_row;
  int64_t num_rows;
  int64_t begin;
  int64_t end;
};

// Cuts the call into tasks of at most kTaskRows rows and `step` ranks or columns; `limit(weights,
// target)` is their number.
template <typename Limit>
std::vector<Task> MakeTasks(const LoraCall& call, int64_t step, const Limit& limit) {
  std::vector<Task> tasks;
  int64_t v_offset = 0;
  for (const LoraSegment& segment : call.segments) {
    for (size_t target = 0; target < call.targets.size(); ++target) {
      const LoraWeights& weights = segment.targets[target];
      if (weights.rank == 0) continue;
      const int64_t end = limit(weights, call.targets[target]);
      for (int64_t row = 0; row < segment.num_rows; row += kTaskRows) {
        const int64_t rows = std::min(kTaskRows, segment.num_rows - row);
        for (int64_t begin = 0; begin < end; begin += step) {
          tasks.push_back(
              {&segment, target, v_offset, row, rows, begin, std::min(begin + step, end)});
        }
      }
      v_offset += int64_t{segment.num_rows} * weights.rank;
    }
  }
  return tasks;
}

// True if two segments share a row.
bool Overlap(std::span<const LoraSegment> segments) {
  for (size_t i = 1; i < segments.size(); ++i) {
    if (segments[i].first_row < segments[i - 1].first_row + segments[i - 1].num_rows) return true;
  }
  return false;
}

void RunExpandTask(const CpuKernels& kernels, const LoraCall& call, const Task& task,
                   std::span<const float> v, MatrixView<float> y) {
  const LoraWeights& weights = task.segment->targets[task.target];
  const LoraTarget& target = call.targets[task.target];
  const int64_t element_bytes = static_cast<int64_t>(SizeOf(call.dtype));
  const auto run = call.dtype == DType::kF32 ? kernels.lora_expand_f32 : kernels.lora_expand_bf16;
  RowCursor b(weights.b);
  for (int32_t rank = 0; rank < weights.rank; rank += kLoraMaxTileRanks) {
    LoraExpandTile tile{
        .v = v.data() + task.v_offset + task.first_row * weights.rank + rank,
        .v_stride = weights.rank,
        .rows = task.num_rows,
        .b = {},
        .num_ranks = std::min(kLoraMaxTileRanks, weights.rank - rank),
        .scale = task.segment->weight * weights.scale,
        .y = y.row(task.segment->first_row + task.first_row) + target.first_col + task.begin,
        .y_stride = y.stride,
        .cols = task.end - task.begin};
    for (int32_t j = 0; j < tile.num_ranks; ++j)
      tile.b[j] = b.At(rank + j) + task.begin * element_bytes;
    run(tile);
  }
  if (weights.gain.runs.empty()) return;
  RowCursor gain(weights.gain);
  const auto run_gain = call.dtype == DType::kF32 ? kernels.lora_gain_f32 : kernels.lora_gain_bf16;
  const std::byte* high = gain.At(0) + task.begin * element_bytes;
  const std::byte* low = gain.At(1) + task.begin * element_bytes;
  run_gain({.gain = {high, low},
            .bias = target.bias == nullptr ? nullptr : target.bias + task.begin,
            .rows = task.num_rows,
            .y = y.row(task.segment->first_row + task.first_row) + target.first_col + task.begin,
            .y_stride = y.stride,
            .cols = task.end - task.begin});
}

}  // namespace

int64_t LoraIntermediateSize(const LoraCall& call) {
  int64_t size = 0;
  for (const LoraSegment& segment : call.segments) {
    for (const LoraWeights& weights : segment.targets) {
      size += int64_t{segment.num_rows} * weights.rank;
    }
  }
  return size;
}

void LoraShrink(CpuContext& context, const ConstMatrix& x, const LoraCall& call,
                std::span<float> v) {
  CheckCall(call, x.rows, &LoraWeights::a);
  CHECK_EQ(x.dtype, call.dtype);
  CHECK_EQ(static_cast<int64_t>(v.size()), LoraIntermediateSize(call));
  const CpuKernels& kernels = context.kernels();
  const auto run = call.dtype == DType::kF32 ? kernels.lora_shrink_f32 : kernels.lora_shrink_bf16;
  const auto tasks = MakeTasks(
      call, kLoraMaxTileRanks,
      [](const LoraWeights& weights, const LoraTarget&) { return int64_t{weights.rank}; });
  context.threads().ParallelFor(static_cast<int64_t>(tasks.size()), [&](int64_t index) {
    const Task& task = tasks[static_cast<size_t>(index)];
    const LoraWeights& weights = task.segment->targets[task.target];
    RowCursor a(weights.a, task.begin);
    LoraShrinkTile tile{.x = x.row(task.segment->first_row + task.first_row),
                        .x_stride_bytes = x.stride * static_cast<int64_t>(SizeOf(x.dtype)),
                        .rows = task.num_rows,
                        .in = x.cols,
                        .a = {},
                        .num_ranks = static_cast<int32_t>(task.end - task.begin),
                        .v = v.data() + task.v_offset + task.first_row * weights.rank + task.begin,
                        .v_stride = weights.rank};
    for (int32_t j = 0; j < tile.num_ranks; ++j) {
      tile.a[j] = a.At(static_cast<int32_t>(task.begin) + j);
    }
    run(tile);
  });
}

void LoraExpand(CpuContext& context, std::span<const float> v, const LoraCall& call,
                MatrixView<float> y) {
  CheckCall(call, y.rows, &LoraWeights::b);
  CHECK_EQ(static_cast<int64_t>(v.size()), LoraIntermediateSize(call));
  for (const LoraTarget& target : call.targets) CHECK_LE(target.first_col + target.out, y.cols);
  const CpuKernels& kernels = context.kernels();
  auto tasks = MakeTasks(call, kTaskCols,
                         [](const LoraWeights&, const LoraTarget& target) { return target.out; });
  // What adds to the same elements of y is one thread's, in order: where segments share rows, all
  // that concerns a block of columns.
  const bool overlap = Overlap(call.segments);
  const auto block = [](const Task& task) { return std::pair(task.target, task.begin); };
  if (overlap) std::ranges::stable_sort(tasks, {}, block);
  std::vector<size_t> starts;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (!overlap || i == 0 || block(tasks[i]) != block(tasks[i - 1])) starts.push_back(i);
  }
  context.threads().ParallelFor(static_cast<int64_t>(starts.size()), [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    const size_t end = i + 1 < starts.size() ? starts[i + 1] : tasks.size();
    for (size_t t = starts[i]; t < end; ++t) RunExpandTask(kernels, call, tasks[t], v, y);
  });
}

}  // namespace aril::kernels

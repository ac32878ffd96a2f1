#include "kernels/lora/lora.h"

#include <algorithm>
#include <optional>
#include <utility>

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

// Rows of B are asked for so long before they are read (of a Zen 4's bandwidth, with one row a
// segment: 0.54 with 256 bytes, 0.59 with 8 KiB, 0.85 with 16), and so many ahead at most.
constexpr int64_t kAheadBytes = int64_t{16} << 10;
constexpr int64_t kMaxAheadRanks = 16;

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

// What the call is cut into: at most so many rows, and so many ranks or columns.
struct Cut {
  int64_t rows;
  int64_t step;
};

// `limit(weights, target)`: the number of ranks or columns.
template <typename Limit>
std::vector<Task> MakeTasks(const LoraCall& call, const Cut& cut, const Limit& limit) {
  std::vector<Task> tasks;
  int64_t v_offset = 0;
  for (const LoraSegment& segment : call.segments) {
    for (size_t target = 0; target < call.targets.size(); ++target) {
      const LoraWeights& weights = segment.targets[target];
      if (weights.rank == 0) continue;
      const int64_t end = limit(weights, call.targets[target]);
      for (int64_t row = 0; row < segment.num_rows; row += cut.rows) {
        const int64_t rows = std::min(cut.rows, segment.num_rows - row);
        for (int64_t begin = 0; begin < end; begin += cut.step) {
          tasks.push_back(
              {&segment, target, v_offset, row, rows, begin, std::min(begin + cut.step, end)});
        }
      }
      v_offset += int64_t{segment.num_rows} * weights.rank;
    }
  }
  return tasks;
}

// The same, with `step` as long as there are enough tasks for all threads, or only a few rows,
// which take no longer than handing y to another core. What a call computes does not depend on it.
template <typename Limit>
std::vector<Task> MakeEnoughTasks(const LoraCall& call, int64_t threads, int64_t step,
                                  const Limit& limit) {
  constexpr int64_t kTasksPerThread = 2, kMinRows = 8, kMaxHalvings = 2;
  int64_t rows = 0;
  for (const LoraSegment& segment : call.segments) {
    rows += segment.num_rows * static_cast<int64_t>(call.targets.size());
  }
  const int64_t share = RoundUp(CeilDiv(rows, threads * kTasksPerThread), kMinRows);
  Cut cut{.rows = std::clamp(share, kMinRows, kTaskRows), .step = step};
  std::vector<Task> tasks = MakeTasks(call, cut, limit);
  if (threads == 1 || rows < kMinRows) return tasks;
  for (int64_t halving = 0;
       halving < kMaxHalvings && static_cast<int64_t>(tasks.size()) < threads * kTasksPerThread;
       ++halving) {
    cut.step = CeilDiv(cut.step, int64_t{2});
    tasks = MakeTasks(call, cut, limit);
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

// The rows of B that a thread reads after the one it is at: those of its task, then those of its
// next one, if it has one.
class RowsAhead {
 public:
  RowsAhead(const LoraCall& call, const Task& task, const Task* next)
      : element_bytes_(static_cast<int64_t>(SizeOf(call.dtype))) {
    const int64_t row_bytes = (task.end - task.begin) * element_bytes_;
    ahead_ = static_cast<int32_t>(std::clamp(RoundUp(CeilDiv(kAheadBytes, row_bytes), int64_t{4}),
                                             int64_t{4}, kMaxAheadRanks));
    Add(task);
    if (next != nullptr) Add(*next);
  }

  // What to ask for while rank `rank` of the task is read, rank after rank; null: nothing.
  const std::byte* At(int32_t rank) {
    int32_t row = rank + ahead_;
    for (size_t i = 0; i < num_tasks_; ++i) {
      if (row < ranks_[i]) return rows_[i]->At(row) + offsets_[i];
      row -= ranks_[i];
    }
    return nullptr;
  }

 private:
  void Add(const Task& task) {
    const LoraWeights& weights = task.segment->targets[task.target];
    rows_[num_tasks_].emplace(weights.b);
    ranks_[num_tasks_] = weights.rank;
    offsets_[num_tasks_] = task.begin * element_bytes_;
    ++num_tasks_;
  }

  int64_t element_bytes_;
  int32_t ahead_ = 0;
  size_t num_tasks_ = 0;
  std::optional<RowCursor> rows_[2];
  int32_t ranks_[2] = {};
  int64_t offsets_[2] = {};
};

// `next`: what this thread does then, if it is known.
void RunExpandTask(const CpuKernels& kernels, const LoraCall& call, const Task& task,
                   const Task* next, std::span<const float> v, MatrixView<float> y) {
  const LoraWeights& weights = task.segment->targets[task.target];
  const LoraTarget& target = call.targets[task.target];
  const int64_t element_bytes = static_cast<int64_t>(SizeOf(call.dtype));
  const auto run = call.dtype == DType::kF32 ? kernels.lora_expand_f32 : kernels.lora_expand_bf16;
  RowCursor b(weights.b);
  RowsAhead ahead(call, task, next);
  for (int32_t rank = 0; rank < weights.rank; rank += kLoraMaxTileRanks) {
    LoraExpandTile tile{
        .v = v.data() + task.v_offset + task.first_row * weights.rank + rank,
        .v_stride = weights.rank,
        .rows = task.num_rows,
        .b = {},
        .fetch = {},
        .num_ranks = std::min(kLoraMaxTileRanks, weights.rank - rank),
        .scale = task.segment->weight * weights.scale,
        .y = y.row(task.segment->first_row + task.first_row) + target.first_col + task.begin,
        .y_stride = y.stride,
        .cols = task.end - task.begin};
    for (int32_t j = 0; j < tile.num_ranks; ++j) {
      tile.b[j] = b.At(rank + j) + task.begin * element_bytes;
      const std::byte* fetch = ahead.At(rank + j);
      tile.fetch[j] = fetch != nullptr ? fetch : tile.b[j];
    }
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

// Runs the tasks [0, num_tasks) on all threads. Each has consecutive ones, whose operands lie
// beside each other in memory, as far as they go.
template <typename Run>
void RunTasks(CpuContext& context, size_t num_tasks, const Run& run) {
  TaskRanges& tasks = context.tasks();
  tasks.Reset(static_cast<int64_t>(num_tasks));
  context.threads().ParallelFor(context.threads().num_threads(), [&](int64_t thread) {
    while (const std::optional<int64_t> task = tasks.Next(thread)) run(static_cast<size_t>(*task));
  });
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
  const auto tasks = MakeEnoughTasks(
      call, context.threads().num_threads(), kLoraMaxTileRanks,
      [](const LoraWeights& weights, const LoraTarget&) { return int64_t{weights.rank}; });
  RunTasks(context, tasks.size(), [&](size_t index) {
    const Task& task = tasks[index];
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
  auto tasks =
      MakeEnoughTasks(call, context.threads().num_threads(), kTaskCols,
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
  RunTasks(context, starts.size(), [&](size_t index) {
    const size_t end = index + 1 < starts.size() ? starts[index + 1] : tasks.size();
    for (size_t t = starts[index]; t < end; ++t) {
      const Task* next = t + 1 < tasks.size() ? &tasks[t + 1] : nullptr;
      RunExpandTask(kernels, call, tasks[t], next, v, y);
    }
  });
}

}  // namespace aril::kernels

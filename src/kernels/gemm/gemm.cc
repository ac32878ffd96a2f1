#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {
namespace {

int64_t GroupElements(DType dtype) { return 4 / static_cast<int64_t>(SizeOf(dtype)); }

// Rows of W as the packer walks them.
struct SourceRow {
  const TensorView* part;
  int64_t row;
};

constexpr float kLargestByte = 127;

// The factor that makes bytes of a row of W: its largest magnitude over 127. 0 for a row of zeros.
float ByteScale(const SourceRow& row, int64_t k, std::span<float> scratch) {
  CopyAsFloat(*row.part, row.row * k, k, scratch.data());
  float largest = 0;
  for (const float value : scratch) largest = std::max(largest, std::fabs(value));
  return largest / kLargestByte;
}

// Adds the bytes to `*sum`.
void QuantizeWeights(std::span<const float> values, float scale, int8_t* out, int32_t* sum) {
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const float q = std::clamp(std::nearbyint(values[i] * inverse), -kLargestByte, kLargestByte);
    out[i] = static_cast<int8_t>(q);
    *sum += out[i];
  }
}

// Where a group along K of a column lies in a block of W.
int64_t OffsetInBlock(const GemmKernel& kernel, int64_t group, int64_t col) {
  if (kernel.layout == GemmKernel::Layout::kPanels) return group * kernel.block_cols + col;
  const int64_t step = group / kGemmAmxGroups, row = group % kGemmAmxGroups;
  const int64_t tile = step * (kernel.block_cols / kGemmAmxCols) + col / kGemmAmxCols;
  return (tile * kGemmAmxGroups + row) * kGemmAmxCols + col % kGemmAmxCols;
}

// Packs `rows` as the columns of one block, a stretch of K at a time, so that what is written stays
// in the cache from row to row. `scales` and `sums` (kI8): those of the rows.
void PackBlock(const GemmKernel& kernel, std::span<const SourceRow> rows, int64_t k, DType dtype,
               float* scales, int32_t* sums, uint32_t* out) {
  constexpr int64_t kStretchGroups = 64;
  const int64_t group = GroupElements(dtype);
  if (dtype == DType::kI8) {
    std::vector<float> values(static_cast<size_t>(k));
    for (size_t c = 0; c < rows.size(); ++c) scales[c] = ByteScale(rows[c], k, values);
  }
  for (int64_t first = 0; first < k; first += kStretchGroups * group) {
    const int64_t count = std::min(kStretchGroups * group, k - first);
    for (size_t c = 0; c < rows.size(); ++c) {
      uint32_t groups[kStretchGroups] = {};
      const int64_t element = rows[c].row * k + first;
      if (dtype == DType::kF32) {
        CopyAsFloat(*rows[c].part, element, count, reinterpret_cast<float*>(groups));
      } else if (dtype == DType::kBF16) {
        CopyAsBF16(*rows[c].part, element, count, reinterpret_cast<BF16*>(groups));
      } else {
        float values[4 * kStretchGroups];
        CopyAsFloat(*rows[c].part, element, count, values);
        QuantizeWeights({values, static_cast<size_t>(count)}, scales[c],
                        reinterpret_cast<int8_t*>(groups), &sums[c]);
      }
      for (int64_t g = 0; g < CeilDiv(count, group); ++g) {
        out[OffsetInBlock(kernel, first / group + g, static_cast<int64_t>(c))] = groups[g];
      }
    }
  }
}

const GemmKernel& KernelFor(const CpuContext& context, DType dtype) {
  const CpuKernels& kernels = context.kernels();
  if (dtype == DType::kI8) return kernels.gemm_int8;
  return dtype == DType::kF32 ? kernels.gemm_f32 : kernels.gemm_bf16;
}

int64_t PaddedGroups(int64_t k, DType dtype, const GemmKernel& kernel) {
  return RoundUp(CeilDiv(k, GroupElements(dtype)), kernel.k_multiple);
}

// x rounded to bytes: [rows, 4 · k_groups], and the factors of its rows.
struct ByteRows {
  uint8_t* bytes;
  float* scales;
};

void QuantizeRows(CpuContext& context, const ConstMatrix& x, int64_t k_groups,
                  const ByteRows& out) {
  const CpuKernels& kernels = context.kernels();
  const auto quantize =
      x.dtype == DType::kF32 ? kernels.quantize_row_f32 : kernels.quantize_row_bf16;
  context.threads().ParallelFor(x.rows, [&](int64_t r) {
    uint8_t* bytes = out.bytes + r * k_groups * 4;
    quantize({.x = x.row(r), .size = x.cols, .out = bytes, .scale = out.scales + r});
    // W's bytes are zero there: any value does.
    std::memset(bytes + x.cols, kGemmByteOffset, static_cast<size_t>(k_groups * 4 - x.cols));
  });
}

// Writes one row of x, group after group at a distance of `step`, with zeros after its end.
void PackXRow(const ConstMatrix& x, int64_t row, int64_t k_groups, int64_t step, uint32_t* out) {
  const int64_t full_groups = x.cols / GroupElements(x.dtype);
  const std::byte* data = x.row(row);
  for (int64_t g = 0; g < full_groups; ++g) std::memcpy(&out[g * step], data + g * 4, 4);
  int64_t g = full_groups;
  if (const int64_t left = x.cols % GroupElements(x.dtype); left != 0) {
    uint32_t last = 0;
    std::memcpy(&last, data + full_groups * 4, static_cast<size_t>(left) * SizeOf(x.dtype));
    out[g++ * step] = last;
  }
  for (; g < k_groups; ++g) out[g * step] = 0;
}

// Writes one row of x into its AMX tiles: `out` is the row's place in the first.
void PackAmxRow(const ConstMatrix& x, int64_t row, int64_t k_groups, uint32_t* out) {
  constexpr int64_t kTileWords = kGemmAmxRows * kGemmAmxGroups;
  constexpr int64_t kRowBytes = kGemmAmxGroups * 4;
  const std::byte* data = x.row(row);
  int64_t left = x.cols * static_cast<int64_t>(SizeOf(x.dtype));
  for (int64_t g = 0; g < k_groups; g += kGemmAmxGroups, out += kTileWords) {
    const int64_t count = std::clamp<int64_t>(left, 0, kRowBytes);
    std::memcpy(out, data, static_cast<size_t>(count));
    std::memset(reinterpret_cast<std::byte*>(out) + count, 0,
                static_cast<size_t>(kRowBytes - count));
    data += count;
    left -= count;
  }
}

void ZeroAmxRow(int64_t k_groups, uint32_t* out) {
  for (int64_t g = 0; g < k_groups; g += kGemmAmxGroups) {
    std::memset(out + g * kGemmAmxRows, 0, kGemmAmxGroups * 4);
  }
}

// How the rows of x and K are cut, and where in the packed x a part of both begins: stretch after
// stretch of K, in each pass after pass of rows.
struct Cuts {
  int64_t rows;
  int64_t k_groups;
  int64_t pass_rows;
  int64_t stretch_groups;
  int64_t shared_passes;  // so many stay in L2 while a task's blocks of columns meet them

  int64_t num_passes() const { return CeilDiv(rows, pass_rows); }
  int64_t num_stretches() const { return CeilDiv(k_groups, stretch_groups); }
  int64_t PassRows(int64_t pass) const { return std::min(pass_rows, rows - pass * pass_rows); }
  int64_t StretchGroups(int64_t stretch) const {
    return std::min(stretch_groups, k_groups - stretch * stretch_groups);
  }
  int64_t padded_rows() const { return RoundUp(rows, kGemmAmxRows); }
  int64_t packed_words() const { return padded_rows() * k_groups; }
  int64_t PackedOffset(int64_t stretch, int64_t pass) const {
    return stretch * stretch_groups * padded_rows() + pass * pass_rows * StretchGroups(stretch);
  }
};

// As many parts of `multiple` as `most` allows, as even as possible: the size of one.
int64_t EvenParts(int64_t size, int64_t most, int64_t multiple) {
  return RoundUp(CeilDiv(size, CeilDiv(size, most)), multiple);
}

Cuts CutsFor(GemmKernel::Layout layout, int64_t rows, int64_t k_groups) {
  Cuts cuts{rows, k_groups, kGemmMaxPassRows, kGemmStretchGroups, /*shared_passes=*/3};
  if (layout == GemmKernel::Layout::kAmxTiles) {
    cuts.pass_rows = EvenParts(rows, kGemmAmxMaxPassRows, 2 * kGemmAmxRows);
    if (cuts.pass_rows * k_groups > kGemmAmxWholePassGroups) {
      cuts.stretch_groups =
          EvenParts(k_groups, kGemmAmxPassGroups / cuts.pass_rows, kGemmAmxGroups);
    } else {
      cuts.stretch_groups = k_groups;
    }
    cuts.shared_passes = 1;
  } else if (rows < kGemmMaxPassRows) {
    cuts.stretch_groups = EvenParts(k_groups, kGemmMaxPassRows * kGemmStretchGroups / rows, 1);
  }
  return cuts;
}

int64_t NumTiles(GemmKernel::Layout layout, int64_t rows) {
  return layout == GemmKernel::Layout::kAmxTiles ? CeilDiv(rows, kGemmAmxRows) : GemmNumTiles(rows);
}

// Packs tile `tile` of x, the rows of one pass and the columns of one stretch; `out`: the pass.
void PackTile(const ConstMatrix& x, int64_t tile, int64_t k_groups, GemmKernel::Layout layout,
              uint32_t* out) {
  if (layout == GemmKernel::Layout::kAmxTiles) {
    const int64_t begin = tile * kGemmAmxRows;
    for (int64_t r = 0; r < kGemmAmxRows; ++r) {
      uint32_t* packed = out + begin * k_groups + r * kGemmAmxGroups;
      if (begin + r < x.rows) {
        PackAmxRow(x, begin + r, k_groups, packed);
      } else {
        ZeroAmxRow(k_groups, packed);
      }
    }
    return;
  }
  const int64_t begin = GemmTileFirstRow(x.rows, tile);
  const int64_t tile_rows = GemmTileFirstRow(x.rows, tile + 1) - begin;
  for (int64_t r = 0; r < tile_rows; ++r) {
    PackXRow(x, begin + r, k_groups, tile_rows, out + begin * k_groups + r);
  }
}

// The tiles of the first pass; the last one may have fewer.
int64_t PassTiles(const Cuts& cuts, GemmKernel::Layout layout) {
  return NumTiles(layout, cuts.PassRows(0));
}

// The tiles of x in all of its stretches and passes, the last of these counted as if it were full.
int64_t NumPackedTiles(const Cuts& cuts, GemmKernel::Layout layout) {
  return cuts.num_stretches() * cuts.num_passes() * PassTiles(cuts, layout);
}

// Packs the `index`-th of these; `out`: where x begins.
void PackXTile(const ConstMatrix& x, const Cuts& cuts, GemmKernel::Layout layout, int64_t index,
               uint32_t* out) {
  const int64_t pass_tiles = PassTiles(cuts, layout);
  const int64_t tile = index % pass_tiles, pass = index / pass_tiles % cuts.num_passes();
  const int64_t stretch = index / pass_tiles / cuts.num_passes();
  if (tile >= NumTiles(layout, cuts.PassRows(pass))) return;
  const int64_t group = GroupElements(x.dtype);
  const int64_t k_groups = cuts.StretchGroups(stretch);
  const int64_t col = stretch * cuts.stretch_groups * group;
  const ConstMatrix columns = x.Columns(col, std::min(k_groups * group, x.cols - col));
  PackTile(columns.Rows(pass * cuts.pass_rows, cuts.PassRows(pass)), tile, k_groups, layout,
           out + cuts.PackedOffset(stretch, pass));
}

// x of so many rows is taken to be in L2 all the time, if it is cut as without AMX.
constexpr int64_t kShortRows = 288;

// Of a pass that meets a block of columns: how many sums it has, and whether they wait for the next
// stretch of K. Then a task keeps those of its blocks with each of the passes that share them.
int64_t PassSums(const GemmKernel& kernel, const Cuts& cuts) {
  return RoundUp(std::min(cuts.pass_rows, cuts.rows), kGemmRowMultiple) * kernel.block_cols;
}
bool SumsWait(const Cuts& cuts) { return cuts.num_stretches() > 1; }

// How many blocks of columns make a task. Where x is in L2 all the time, a few: W streams through
// in long stretches, and threads yet end together. Else x comes from beyond L2 for each task: many.
int64_t TaskBlocks(GemmKernel::Layout layout, int64_t blocks, int64_t rows, int64_t threads) {
  const bool has_tiles = layout == GemmKernel::Layout::kAmxTiles;
  const bool is_short = rows <= (has_tiles ? kGemmAmxMaxWholeRows : kShortRows);
  const int64_t most = is_short ? 4 : has_tiles ? 16 : 8, tasks_per_thread = is_short ? 16 : 4;
  return std::clamp<int64_t>(blocks / (threads * tasks_per_thread), 1, most);
}

// What is to be done for a part of a call.
struct PartPlan {
  GemmPart rows;
  Cuts cuts;
  int64_t task_blocks;
  // Where it begins: in the packed x, among the tiles that are packed, and among the tasks.
  int64_t packed_words;
  int64_t first_tile;
  int64_t first_task;
};

// A call, cut in tasks of some blocks of columns of one part.
struct CallPlan {
  const GemmKernel& kernel;
  int64_t k_groups;
  int64_t blocks;  // of columns
  std::vector<PartPlan> parts;
  int64_t packed_words = 0;
  int64_t num_tiles = 0;
  int64_t num_tasks = 0;
  int64_t thread_sums = 0;  // floats

  const PartPlan& PartOf(int64_t index, int64_t PartPlan::*first) const {
    return *std::prev(std::ranges::upper_bound(parts, index, {}, first));
  }
};

CallPlan Plan(const CpuContext& context, const ConstMatrix& x, std::span<const GemmPart> parts) {
  const PackedMatrix& w = *parts.front().w;
  const GemmKernel& kernel = KernelFor(context, w.dtype);
  CallPlan plan{.kernel = kernel,
                .k_groups = PaddedGroups(w.k, w.dtype, kernel),
                .blocks = CeilDiv(w.n, kernel.block_cols)};
  int64_t num_rows = 0;
  for (const GemmPart& part : parts) {
    CHECK_EQ(part.first_row, num_rows);
    CHECK_GT(part.num_rows, 0);
    num_rows += part.num_rows;
  }
  CHECK_EQ(num_rows, x.rows);
  plan.parts.reserve(parts.size());
  for (const GemmPart& part : parts) {
    CHECK_EQ(part.w->isa, context.isa());
    CHECK(part.w->dtype == w.dtype && part.w->n == w.n && part.w->k == w.k);
    // As many as there would be if all of the work were like this part's.
    const int64_t alike = CeilDiv(plan.blocks * num_rows, part.num_rows);
    const Cuts cuts = CutsFor(kernel.layout, part.num_rows, plan.k_groups);
    const int64_t task_blocks =
        TaskBlocks(kernel.layout, alike, part.num_rows, context.threads().num_threads());
    plan.parts.push_back(
        {part, cuts, task_blocks, plan.packed_words, plan.num_tiles, plan.num_tasks});
    plan.packed_words += cuts.packed_words();
    plan.num_tiles += NumPackedTiles(cuts, kernel.layout);
    plan.num_tasks += CeilDiv(plan.blocks, task_blocks);
    plan.thread_sums =
        std::max(plan.thread_sums,
                 PassSums(kernel, cuts) * (SumsWait(cuts) ? task_blocks * cuts.shared_passes : 1));
  }
  return plan;
}

// The tasks of a call, and what they work on.
class Tasks {
 public:
  Tasks(const CallPlan& plan, const uint32_t* packed_x, const float* row_scales, const float* bias,
        MatrixView<float> y)
      : plan_(plan), packed_x_(packed_x), row_scales_(row_scales), bias_(bias), y_(y) {}

  // Of a task's blocks a few passes of x and a stretch of K at a time: x stays in L2 from block to
  // block, a block from pass to pass.
  void Run(int64_t task, float* own_sums) const {
    const PartPlan& part = plan_.PartOf(task, &PartPlan::first_task);
    const Cuts& cuts = part.cuts;
    const int64_t first = (task - part.first_task) * part.task_blocks;
    const int64_t last = std::min(plan_.blocks, first + part.task_blocks);
    for (int64_t pass = 0; pass < cuts.num_passes(); pass += cuts.shared_passes) {
      const int64_t end = std::min(cuts.num_passes(), pass + cuts.shared_passes);
      for (int64_t stretch = 0; stretch < cuts.num_stretches(); ++stretch) {
        for (int64_t block = first; block < last; ++block) {
          const bool is_last = block + 1 == last;
          const uint32_t* next = is_last && stretch + 1 < cuts.num_stretches()
                                     ? StretchOfW(part, first, stretch + 1)
                                     : StretchOfW(part, block + 1, is_last ? 0 : stretch);
          for (int64_t p = pass; p < end; ++p) {
            const int64_t waiting =
                SumsWait(cuts) ? (block - first) * cuts.shared_passes + p - pass : 0;
            RunBlock(part, block, stretch, p, next,
                     own_sums + waiting * PassSums(plan_.kernel, cuts));
          }
        }
      }
    }
  }

 private:
  const uint32_t* StretchOfW(const PartPlan& part, int64_t block, int64_t stretch) const {
    const int64_t first_group = block * plan_.k_groups + stretch * part.cuts.stretch_groups;
    return part.rows.w->data.as<uint32_t>() + first_group * plan_.kernel.block_cols;
  }

  void RunBlock(const PartPlan& part, int64_t block, int64_t stretch, int64_t pass,
                const uint32_t* next_w, float* sums) const {
    const PackedMatrix& w = *part.rows.w;
    const Cuts& cuts = part.cuts;
    const int64_t block_cols = plan_.kernel.block_cols;
    const int64_t col = block * block_cols;
    const int64_t row = part.rows.first_row + pass * cuts.pass_rows;
    const bool is_int8 = w.dtype == DType::kI8;
    plan_.kernel.run({.w = StretchOfW(part, block, stretch),
                      .x = packed_x_ + part.packed_words + cuts.PackedOffset(stretch, pass),
                      .rows = cuts.PassRows(pass),
                      .k_groups = cuts.StretchGroups(stretch),
                      .next_w = next_w,
                      .sums = sums,
                      .begins = stretch == 0,
                      .ends = stretch == cuts.num_stretches() - 1,
                      .bias = bias_ == nullptr ? nullptr : bias_ + col,
                      .y = y_.row(row) + col,
                      .y_stride = y_.stride,
                      .cols = std::min(block_cols, w.n - col),
                      .row_scales = is_int8 ? row_scales_ + row : nullptr,
                      .col_scales = is_int8 ? w.scales.data() + col : nullptr,
                      .col_sums = is_int8 ? w.sums.data() + col : nullptr});
  }

  const CallPlan& plan_;
  const uint32_t* packed_x_;
  const float* row_scales_;  // of bytes
  const float* bias_;
  MatrixView<float> y_;
};

void Multiply(CpuContext& context, const ConstMatrix& x, std::span<const GemmPart> parts,
              const float* bias, MatrixView<float> y) {
  CHECK(!parts.empty());
  const PackedMatrix& w = *parts.front().w;
  const bool is_int8 = w.dtype == DType::kI8;
  CHECK(is_int8 ? x.dtype == DType::kF32 || x.dtype == DType::kBF16 : x.dtype == w.dtype);
  CHECK_EQ(x.cols, w.k);
  CHECK_EQ(y.rows, x.rows);
  CHECK_EQ(y.cols, w.n);
  const CallPlan plan = Plan(context, x, parts);
  const int64_t threads = context.threads().num_threads();
  const int64_t sums_words = threads * plan.thread_sums;
  // For bytes also the rounded rows, before they are packed, and their factors.
  const int64_t extra_words = is_int8 ? x.rows * plan.k_groups + x.rows : 0;
  auto* const sums = reinterpret_cast<float*>(context.Scratch(
      static_cast<size_t>(sums_words + plan.packed_words + extra_words) * sizeof(float)));
  auto* const packed_x = reinterpret_cast<uint32_t*>(sums + sums_words);
  ConstMatrix operand = x;
  float* row_scales = nullptr;
  if (is_int8) {
    uint32_t* const bytes = packed_x + plan.packed_words;
    row_scales = reinterpret_cast<float*>(bytes + x.rows * plan.k_groups);
    QuantizeRows(context, x, plan.k_groups, {reinterpret_cast<uint8_t*>(bytes), row_scales});
    operand = {reinterpret_cast<const std::byte*>(bytes), DType::kU8, x.rows, plan.k_groups * 4,
               plan.k_groups * 4};
  }
  context.threads().ParallelFor(plan.num_tiles, [&](int64_t tile) {
    const PartPlan& part = plan.PartOf(tile, &PartPlan::first_tile);
    PackXTile(operand.Rows(part.rows.first_row, part.rows.num_rows), part.cuts, plan.kernel.layout,
              tile - part.first_tile, packed_x + part.packed_words);
  });
  // As many chunks as threads, each with its own sums; the tasks are handed out among them.
  const Tasks tasks(plan, packed_x, row_scales, bias, y);
  TaskRanges& ranges = context.tasks();
  ranges.Reset(plan.num_tasks);
  context.threads().ParallelFor(threads, [&](int64_t thread) {
    while (const std::optional<int64_t> task = ranges.Next(thread)) {
      tasks.Run(*task, sums + thread * plan.thread_sums);
    }
  });
}

}  // namespace

PackedMatrix Pack(CpuContext& context, const std::vector<TensorView>& parts, DType dtype) {
  CHECK(!parts.empty());
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kI8);
  const GemmKernel& kernel = KernelFor(context, dtype);
  PackedMatrix packed{.isa = context.isa(), .dtype = dtype, .k = parts[0].shape.at(1)};
  std::vector<SourceRow> rows;
  for (const TensorView& part : parts) {
    CHECK_EQ(part.shape.at(1), packed.k);
    for (int64_t r = 0; r < part.shape[0]; ++r) rows.push_back({&part, r});
  }
  packed.n = static_cast<int64_t>(rows.size());
  const int64_t block_cols = kernel.block_cols;
  const int64_t k_groups = PaddedGroups(packed.k, dtype, kernel);
  const int64_t blocks = CeilDiv(packed.n, block_cols);
  packed.data = Buffer(static_cast<size_t>(blocks * k_groups * block_cols) * 4);
  const bool is_int8 = dtype == DType::kI8;
  if (is_int8) {
    CHECK_LE(packed.k, kMaxInt8Depth);
    packed.scales.resize(rows.size());
    packed.sums.resize(rows.size());
  }
  context.threads().ParallelFor(blocks, [&](int64_t block) {
    const int64_t first = block * block_cols;
    const int64_t cols = std::min(block_cols, packed.n - first);
    PackBlock(kernel,
              std::span(rows).subspan(static_cast<size_t>(first), static_cast<size_t>(cols)),
              packed.k, dtype, is_int8 ? packed.scales.data() + first : nullptr,
              is_int8 ? packed.sums.data() + first : nullptr,
              packed.data.as<uint32_t>() + first * k_groups);
  });
  return packed;
}

void Gemm(CpuContext& context, const ConstMatrix& x, const PackedMatrix& w, const float* bias,
          MatrixView<float> y) {
  if (x.rows == 0) return;
  const GemmPart whole{0, x.rows, &w};
  Multiply(context, x, {&whole, 1}, bias, y);
}

void GemmParts(CpuContext& context, const ConstMatrix& x, std::span<const GemmPart> parts,
               MatrixView<float> y) {
  if (x.rows == 0) return;
  Multiply(context, x, parts, nullptr, y);
}

}  // namespace aril::kernels

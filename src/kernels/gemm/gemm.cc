#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/gemm/gemm_layout.h"

namespace aril::kernels {
namespace {

bool Widens(const GemmKernel& kernel, DType x) { return kernel.widens_bf16 && x == DType::kBF16; }

// Elements of x in a k group.
int64_t GroupElements(DType dtype) { return 4 / static_cast<int64_t>(SizeOf(dtype)); }
int64_t GroupElements(const GemmKernel& kernel, DType dtype) {
  return Widens(kernel, dtype) ? 1 : GroupElements(dtype);
}

// x rounded to bytes, as weights of bytes or of four bits want it: words [rows, x_words], and for
// the former the factors of its rows.
struct RoundedRows {
  uint32_t* words;
  float* scales;
  std::byte* ordered;  // room for x, if any part has an order
};

bool HasOrder(const GemmPart& part) { return !part.w->order.empty(); }

// The elements of a row, each a Word, in another order.
template <typename Word>
void Reorder(const std::byte* row, std::span<const int32_t> order, std::byte* out) {
  for (size_t i = 0; i < order.size(); ++i) {
    std::memcpy(out + i * sizeof(Word), row + static_cast<size_t>(order[i]) * sizeof(Word),
                sizeof(Word));
  }
}

void RoundRows(CpuContext& context, const ConstMatrix& x, std::span<const GemmPart> parts,
               int64_t x_words, const RoundedRows& out) {
  const CpuKernels& kernels = context.kernels();
  const bool is_f32 = x.dtype == DType::kF32;
  const auto by_row = is_f32 ? kernels.quantize_row_f32 : kernels.quantize_row_bf16;
  const auto by_group = is_f32 ? kernels.quantize_groups_f32 : kernels.quantize_groups_bf16;
  const bool is_int4 = parts.front().w->format == WeightFormat::kInt4;
  context.threads().ParallelFor(x.rows, [&](int64_t r) {
    uint32_t* const words = out.words + r * x_words;
    if (is_int4) {
      const std::byte* row = x.row(r);
      const GemmPart& part =
          *std::prev(std::ranges::upper_bound(parts, r, {}, &GemmPart::first_row));
      if (HasOrder(part)) {
        std::byte* const ordered = out.ordered + r * x.cols * static_cast<int64_t>(SizeOf(x.dtype));
        (is_f32 ? Reorder<uint32_t> : Reorder<uint16_t>)(row, part.w->order, ordered);
        row = ordered;
      }
      by_group({.x = row, .size = x.cols, .out = words});
      return;
    }
    auto* const bytes = reinterpret_cast<uint8_t*>(words);
    by_row({.x = x.row(r), .size = x.cols, .out = bytes, .scale = out.scales + r});
    // W's bytes are zero there: any value does.
    std::memset(bytes + x.cols, kGemmByteOffset, static_cast<size_t>(x_words * 4 - x.cols));
  });
}

// Writes one row of x, group after group at a distance of `step`, with zeros after its end.
void PackXRow(const ConstMatrix& x, int64_t row, int64_t x_words, int64_t step, uint32_t* out) {
  const int64_t full_groups = x.cols / GroupElements(x.dtype);
  const std::byte* data = x.row(row);
  for (int64_t g = 0; g < full_groups; ++g) std::memcpy(&out[g * step], data + g * 4, 4);
  int64_t g = full_groups;
  if (const int64_t left = x.cols % GroupElements(x.dtype); left != 0) {
    uint32_t last = 0;
    std::memcpy(&last, data + full_groups * 4, static_cast<size_t>(left) * SizeOf(x.dtype));
    out[g++ * step] = last;
  }
  for (; g < x_words; ++g) out[g * step] = 0;
}

// The same, of a row of BF16 as floats.
void WidenXRow(const ConstMatrix& x, int64_t row, int64_t x_words, int64_t step, uint32_t* out) {
  const auto* const elements = reinterpret_cast<const uint16_t*>(x.row(row));
  int64_t g = 0;
  for (; g < x.cols; ++g) out[g * step] = uint32_t{elements[g]} << 16;
  for (; g < x_words; ++g) out[g * step] = 0;
}

// Writes one row of x into its AMX tiles: `out` is the row's place in the first.
void PackAmxRow(const ConstMatrix& x, int64_t row, int64_t x_words, uint32_t* out) {
  constexpr int64_t kTileWords = kGemmAmxRows * kGemmAmxGroups;
  constexpr int64_t kRowBytes = kGemmAmxGroups * 4;
  const std::byte* data = x.row(row);
  int64_t left = x.cols * static_cast<int64_t>(SizeOf(x.dtype));
  for (int64_t g = 0; g < x_words; g += kGemmAmxGroups, out += kTileWords) {
    const int64_t count = std::clamp<int64_t>(left, 0, kRowBytes);
    std::memcpy(out, data, static_cast<size_t>(count));
    std::memset(reinterpret_cast<std::byte*>(out) + count, 0,
                static_cast<size_t>(kRowBytes - count));
    data += count;
    left -= count;
  }
}

void ZeroAmxRow(int64_t x_words, uint32_t* out) {
  for (int64_t g = 0; g < x_words; g += kGemmAmxGroups) {
    std::memset(out + g * kGemmAmxRows, 0, kGemmAmxGroups * 4);
  }
}

// How the rows of x and K are cut, and where in the packed x a part of both begins: stretch after
// stretch of K, in each pass after pass of rows.
struct Cuts {
  int64_t rows;
  int64_t x_words;
  int64_t pass_rows;
  int64_t stretch_words;
  int64_t shared_passes;  // so many stay in L2 while a task's blocks of columns meet them

  int64_t num_passes() const { return CeilDiv(rows, pass_rows); }
  int64_t num_stretches() const { return CeilDiv(x_words, stretch_words); }
  int64_t PassRows(int64_t pass) const { return std::min(pass_rows, rows - pass * pass_rows); }
  int64_t StretchWords(int64_t stretch) const {
    return std::min(stretch_words, x_words - stretch * stretch_words);
  }
  int64_t padded_rows() const { return RoundUp(rows, kGemmAmxRows); }
  int64_t packed_words() const { return padded_rows() * x_words; }
  int64_t PackedOffset(int64_t stretch, int64_t pass) const {
    return stretch * stretch_words * padded_rows() + pass * pass_rows * StretchWords(stretch);
  }
};

// As many parts of `multiple` as `most` allows, as even as possible: the size of one.
int64_t EvenParts(int64_t size, int64_t most, int64_t multiple) {
  return RoundUp(CeilDiv(size, CeilDiv(size, most)), multiple);
}

Cuts CutsFor(const GemmKernel& kernel, int64_t rows, int64_t x_words) {
  const int64_t multiple = kernel.x_multiple;
  Cuts cuts{rows, x_words, kGemmMaxPassRows, kGemmStretchWords / multiple * multiple,
            /*shared_passes=*/3};
  if (kernel.layout == GemmKernel::Layout::kAmxTiles) {
    cuts.pass_rows = EvenParts(rows, kGemmAmxMaxPassRows, 2 * kGemmAmxRows);
    if (cuts.pass_rows * x_words > kGemmAmxWholePassWords) {
      cuts.stretch_words = EvenParts(x_words, kGemmAmxPassWords / cuts.pass_rows, multiple);
    } else {
      cuts.stretch_words = x_words;
    }
    cuts.shared_passes = 1;
  } else if (rows < kGemmMaxPassRows) {
    cuts.stretch_words = EvenParts(x_words, kGemmMaxPassRows * kGemmStretchWords / rows, multiple);
  }
  return cuts;
}

int64_t NumTiles(GemmKernel::Layout layout, int64_t rows) {
  return layout == GemmKernel::Layout::kAmxTiles ? CeilDiv(rows, kGemmAmxRows) : GemmNumTiles(rows);
}

// Packs tile `tile` of x, the rows of one pass and the columns of one stretch; `out`: the pass.
void PackTile(const ConstMatrix& x, int64_t tile, int64_t x_words, const GemmKernel& kernel,
              uint32_t* out) {
  if (kernel.layout == GemmKernel::Layout::kAmxTiles) {
    const int64_t begin = tile * kGemmAmxRows;
    for (int64_t r = 0; r < kGemmAmxRows; ++r) {
      uint32_t* packed = out + begin * x_words + r * kGemmAmxGroups;
      if (begin + r < x.rows) {
        PackAmxRow(x, begin + r, x_words, packed);
      } else {
        ZeroAmxRow(x_words, packed);
      }
    }
    return;
  }
  const int64_t begin = GemmTileFirstRow(x.rows, tile);
  const int64_t tile_rows = GemmTileFirstRow(x.rows, tile + 1) - begin;
  for (int64_t r = 0; r < tile_rows; ++r) {
    uint32_t* const packed = out + begin * x_words + r;
    (Widens(kernel, x.dtype) ? WidenXRow : PackXRow)(x, begin + r, x_words, tile_rows, packed);
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
void PackXTile(const ConstMatrix& x, const Cuts& cuts, const GemmKernel& kernel, int64_t index,
               uint32_t* out) {
  const int64_t pass_tiles = PassTiles(cuts, kernel.layout);
  const int64_t tile = index % pass_tiles, pass = index / pass_tiles % cuts.num_passes();
  const int64_t stretch = index / pass_tiles / cuts.num_passes();
  if (tile >= NumTiles(kernel.layout, cuts.PassRows(pass))) return;
  const int64_t group = GroupElements(kernel, x.dtype);
  const int64_t x_words = cuts.StretchWords(stretch);
  const int64_t col = stretch * cuts.stretch_words * group;
  const ConstMatrix columns = x.Columns(col, std::min(x_words * group, x.cols - col));
  PackTile(columns.Rows(pass * cuts.pass_rows, cuts.PassRows(pass)), tile, x_words, kernel,
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
  int64_t x_words;
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
  const GemmKernel& kernel = KernelFor(context, w.format, x.dtype);
  CallPlan plan{.kernel = kernel,
                .x_words = XWords(w.k, w.format, kernel),
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
    CHECK(part.w->format == w.format && part.w->n == w.n && part.w->k == w.k);
    // As many as there would be if all of the work were like this part's.
    const int64_t alike = CeilDiv(plan.blocks * num_rows, part.num_rows);
    const Cuts cuts = CutsFor(kernel, part.num_rows, plan.x_words);
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
  Tasks(const CallPlan& plan, const uint32_t* packed_x, const float* row_scales,
        MatrixView<float> y)
      : plan_(plan), packed_x_(packed_x), row_scales_(row_scales), y_(y) {}

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
    const int64_t first = block * plan_.x_words + stretch * part.cuts.stretch_words;
    return part.rows.w->data.as<uint32_t>() + BlockWords(plan_.kernel, first);
  }

  void RunBlock(const PartPlan& part, int64_t block, int64_t stretch, int64_t pass,
                const uint32_t* next_w, float* sums) const {
    const PackedMatrix& w = *part.rows.w;
    const Cuts& cuts = part.cuts;
    const int64_t block_cols = plan_.kernel.block_cols;
    const int64_t col = block * block_cols;
    const int64_t row = part.rows.first_row + pass * cuts.pass_rows;
    const bool is_int8 = w.format == WeightFormat::kInt8;
    const bool is_float8 = w.format == WeightFormat::kFloat8;
    const int64_t stride = w.has_group_scales ? plan_.blocks * block_cols : 0;
    const int64_t group = is_float8 ? stretch * cuts.stretch_words / plan_.kernel.x_multiple : 0;
    const float* const scales = w.scales.empty() ? nullptr : w.scales.data() + col;
    plan_.kernel.run({.w = StretchOfW(part, block, stretch),
                      .x = packed_x_ + part.packed_words + cuts.PackedOffset(stretch, pass),
                      .rows = cuts.PassRows(pass),
                      .x_words = cuts.StretchWords(stretch),
                      .next_w = next_w,
                      .sums = sums,
                      .begins = stretch == 0,
                      .ends = stretch == cuts.num_stretches() - 1,
                      .bias = part.rows.bias == nullptr ? nullptr : part.rows.bias + col,
                      .y = y_.row(row) + col,
                      .y_stride = y_.stride,
                      .cols = std::min(block_cols, w.n - col),
                      .col_scales = is_float8 ? nullptr : scales,
                      .row_scales = is_int8 ? row_scales_ + row : nullptr,
                      .col_sums = is_int8 ? w.sums.data() + col : nullptr,
                      .group_scales = is_float8 ? scales + group * stride : nullptr,
                      .group_scales_stride = stride,
                      .codebook = w.codebook.data(),
                      .codebook_bf16 = w.codebook_bf16.data()});
  }

  const CallPlan& plan_;
  const uint32_t* packed_x_;
  const float* row_scales_;  // of bytes
  MatrixView<float> y_;
};

}  // namespace

void GemmParts(CpuContext& context, const ConstMatrix& x, std::span<const GemmPart> parts,
               MatrixView<float> y) {
  if (x.rows == 0) return;
  CHECK(!parts.empty());
  const PackedMatrix& w = *parts.front().w;
  const bool is_rounded = RoundsActivations(w.format);
  CHECK(x.dtype == DType::kF32 || x.dtype == DType::kBF16);
  CHECK(IsQuantized(w.format) || FormatOf(x.dtype) == w.format);
  CHECK_EQ(x.cols, w.k);
  CHECK_EQ(y.rows, x.rows);
  CHECK_EQ(y.cols, w.n);
  const CallPlan plan = Plan(context, x, parts);
  const int64_t threads = context.threads().num_threads();
  const int64_t sums_words = threads * plan.thread_sums;
  // Also the rounded rows, before they are packed, their factors, and x in other orders.
  const int64_t ordered_words = std::ranges::any_of(parts, HasOrder) ? x.rows * x.cols : 0;
  const int64_t extra_words = is_rounded ? x.rows * plan.x_words + x.rows + ordered_words : 0;
  auto* const sums = reinterpret_cast<float*>(context.Scratch(
      static_cast<size_t>(sums_words + plan.packed_words + extra_words) * sizeof(float)));
  auto* const packed_x = reinterpret_cast<uint32_t*>(sums + sums_words);
  ConstMatrix operand = x;
  float* row_scales = nullptr;
  if (is_rounded) {
    uint32_t* const words = packed_x + plan.packed_words;
    row_scales = reinterpret_cast<float*>(words + x.rows * plan.x_words);
    RoundRows(context, x, parts, plan.x_words,
              {words, row_scales, reinterpret_cast<std::byte*>(row_scales + x.rows)});
    operand = {reinterpret_cast<const std::byte*>(words), DType::kU8, x.rows, plan.x_words * 4,
               plan.x_words * 4};
  }
  context.threads().ParallelFor(plan.num_tiles, [&](int64_t tile) {
    const PartPlan& part = plan.PartOf(tile, &PartPlan::first_tile);
    PackXTile(operand.Rows(part.rows.first_row, part.rows.num_rows), part.cuts, plan.kernel,
              tile - part.first_tile, packed_x + part.packed_words);
  });
  // As many chunks as threads, each with its own sums; the tasks are handed out among them.
  const Tasks tasks(plan, packed_x, row_scales, y);
  TaskRanges& ranges = context.tasks();
  ranges.Reset(plan.num_tasks);
  context.threads().ParallelFor(threads, [&](int64_t thread) {
    while (const std::optional<int64_t> task = ranges.Next(thread)) {
      tasks.Run(*task, sums + thread * plan.thread_sums);
    }
  });
}

void Gemm(CpuContext& context, const ConstMatrix& x, const PackedMatrix& w, const float* bias,
          MatrixView<float> y) {
  const GemmPart whole{0, x.rows, &w, bias};
  GemmParts(context, x, {&whole, 1}, y);
}

}  // namespace aril::kernels

#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {
namespace {

int64_t GroupElements(DType dtype) { return dtype == DType::kF32 ? 1 : 2; }

// Rows of W as the packer walks them.
struct SourceRow {
  const TensorView* part;
  int64_t row;
};

// Packs `rows` as the columns of one block, a stretch of K at a time, so that what is written stays
// in the cache from row to row.
void PackBlock(std::span<const SourceRow> rows, int64_t k, DType dtype, int64_t block_cols,
               uint32_t* out) {
  constexpr int64_t kStretchGroups = 64;
  const int64_t group = GroupElements(dtype);
  for (int64_t first = 0; first < k; first += kStretchGroups * group) {
    const int64_t count = std::min(kStretchGroups * group, k - first);
    for (size_t c = 0; c < rows.size(); ++c) {
      uint32_t groups[kStretchGroups] = {};
      const int64_t element = rows[c].row * k + first;
      if (dtype == DType::kF32) {
        CopyAsFloat(*rows[c].part, element, count, reinterpret_cast<float*>(groups));
      } else {
        CopyAsBF16(*rows[c].part, element, count, reinterpret_cast<BF16*>(groups));
      }
      uint32_t* column = out + first / group * block_cols + static_cast<int64_t>(c);
      for (int64_t g = 0; g < CeilDiv(count, group); ++g) column[g * block_cols] = groups[g];
    }
  }
}

const GemmKernel& KernelFor(const CpuContext& context, DType dtype) {
  return dtype == DType::kF32 ? context.kernels().gemm_f32 : context.kernels().gemm_bf16;
}

int64_t PaddedGroups(int64_t k, DType dtype, const GemmKernel& kernel) {
  return RoundUp(CeilDiv(k, GroupElements(dtype)), kernel.k_multiple);
}

// Writes one row of x, group after group at a distance of `step`, with zeros after its end.
void PackXRow(const ConstMatrix& x, int64_t row, int64_t k_groups, int64_t step, uint32_t* out) {
  const int64_t full_groups = x.cols / GroupElements(x.dtype);
  const std::byte* data = x.row(row);
  for (int64_t g = 0; g < full_groups; ++g) std::memcpy(&out[g * step], data + g * 4, 4);
  int64_t g = full_groups;
  if (x.cols % GroupElements(x.dtype) != 0) {
    uint16_t last;
    std::memcpy(&last, data + full_groups * 4, 2);
    out[g++ * step] = last;
  }
  for (; g < k_groups; ++g) out[g * step] = 0;
}

// Packs the rows [first, first + rows) of x, one pass, as the kernel wants them.
void PackPass(CpuContext& context, const ConstMatrix& x, int64_t first, int64_t rows,
              int64_t k_groups, const GemmKernel& kernel, uint32_t* out) {
  if (kernel.x_layout == GemmKernel::XLayout::kRows) {
    context.threads().ParallelFor(RoundUp(rows, kGemmRowMultiple), [&](int64_t r) {
      uint32_t* packed = out + r * k_groups;
      if (r < rows) {
        PackXRow(x, first + r, k_groups, 1, packed);
      } else {
        std::memset(packed, 0, static_cast<size_t>(k_groups) * 4);
      }
    });
    return;
  }
  context.threads().ParallelFor(GemmNumTiles(rows), [&](int64_t tile) {
    const int64_t begin = GemmTileFirstRow(rows, tile);
    const int64_t tile_rows = GemmTileFirstRow(rows, tile + 1) - begin;
    for (int64_t r = 0; r < tile_rows; ++r) {
      PackXRow(x, first + begin + r, k_groups, tile_rows, out + begin * k_groups + r);
    }
  });
}

}  // namespace

PackedMatrix Pack(CpuContext& context, const std::vector<TensorView>& parts, DType dtype) {
  CHECK(!parts.empty());
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
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
  context.threads().ParallelFor(blocks, [&](int64_t block) {
    const int64_t first = block * block_cols;
    const int64_t cols = std::min(block_cols, packed.n - first);
    PackBlock(std::span(rows).subspan(static_cast<size_t>(first), static_cast<size_t>(cols)),
              packed.k, dtype, block_cols, packed.data.as<uint32_t>() + first * k_groups);
  });
  return packed;
}

void Gemm(CpuContext& context, const ConstMatrix& x, const PackedMatrix& w, const float* bias,
          MatrixView<float> y) {
  CHECK_EQ(w.isa, context.isa());
  CHECK_EQ(x.dtype, w.dtype);
  CHECK_EQ(x.cols, w.k);
  CHECK_EQ(y.rows, x.rows);
  CHECK_EQ(y.cols, w.n);
  if (x.rows == 0) return;
  const GemmKernel& kernel = KernelFor(context, w.dtype);
  const int64_t k_groups = PaddedGroups(w.k, w.dtype, kernel);
  const int64_t passes = CeilDiv(x.rows, kGemmMaxPassRows);
  const auto pass_rows = [&](int64_t pass) {
    return std::min(kGemmMaxPassRows, x.rows - pass * kGemmMaxPassRows);
  };
  const int64_t packed_rows = RoundUp(x.rows, kGemmRowMultiple);
  auto* packed_x =
      reinterpret_cast<uint32_t*>(context.Scratch(static_cast<size_t>(packed_rows * k_groups) * 4));
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t first = pass * kGemmMaxPassRows;
    PackPass(context, x, first, pass_rows(pass), k_groups, kernel, packed_x + first * k_groups);
  }
  context.threads().ParallelFor(CeilDiv(w.n, kernel.block_cols), [&](int64_t block) {
    const int64_t col = block * kernel.block_cols;
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t row = pass * kGemmMaxPassRows;
      kernel.run({.w = w.data.as<uint32_t>() + block * k_groups * kernel.block_cols,
                  .x = packed_x + row * k_groups,
                  .rows = pass_rows(pass),
                  .k_groups = k_groups,
                  .bias = bias == nullptr ? nullptr : bias + col,
                  .y = y.row(row) + col,
                  .y_stride = y.stride,
                  .cols = std::min(kernel.block_cols, w.n - col)});
    }
  });
}

}  // namespace aril::kernels

// Of gemm.h: packing W.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_layout.h"
#include "kernels/gemm/int4_weights.h"
#include "kernels/gemm/weight_rows.h"

namespace aril::kernels {
namespace {

// What packing a block of columns writes, of the columns from its first on.
struct BlockOut {
  uint32_t* words;
  float* scales;  // of bytes, of four bits and of FP8
  int32_t* sums;  // of bytes
};

// Where a k group of a column lies in a block of W.
int64_t OffsetInBlock(const GemmKernel& kernel, int64_t group, int64_t col) {
  if (kernel.layout == GemmKernel::Layout::kPanels) return group * kernel.block_cols + col;
  const int64_t step = group / kGemmAmxGroups, row = group % kGemmAmxGroups;
  const int64_t tile = step * (kernel.block_cols / kGemmAmxCols) + col / kGemmAmxCols;
  return (tile * kGemmAmxGroups + row) * kGemmAmxCols + col % kGemmAmxCols;
}

// Packs `rows` as the columns of one block, a stretch of K at a time, so that what is written stays
// in the cache from row to row.
void PackBlock(const GemmKernel& kernel, std::span<const WeightRow> rows, int64_t k,
               WeightFormat format, const BlockOut& out) {
  constexpr int64_t kStretchGroups = 64;
  const int64_t group = format == WeightFormat::kInt8 ? 4 : format == WeightFormat::kBF16 ? 2 : 1;
  if (format == WeightFormat::kInt8) {
    for (size_t c = 0; c < rows.size(); ++c) out.scales[c] = Int8Scale(rows[c]);
  }
  for (int64_t first = 0; first < k; first += kStretchGroups * group) {
    const int64_t count = std::min(kStretchGroups * group, k - first);
    for (size_t c = 0; c < rows.size(); ++c) {
      uint32_t groups[kStretchGroups] = {};
      const int64_t element = rows[c].row * k + first;
      if (format == WeightFormat::kF32) {
        CopyAsFloat(*rows[c].part, element, count, reinterpret_cast<float*>(groups));
      } else if (format == WeightFormat::kBF16) {
        CopyAsBF16(*rows[c].part, element, count, reinterpret_cast<BF16*>(groups));
      } else {
        auto* const bytes = reinterpret_cast<int8_t*>(groups);
        CopyAsInt8(rows[c], out.scales[c], first, count, bytes);
        out.sums[c] = std::accumulate(bytes, bytes + count, out.sums[c]);
      }
      for (int64_t g = 0; g < CeilDiv(count, group); ++g) {
        out.words[OffsetInBlock(kernel, first / group + g, static_cast<int64_t>(c))] = groups[g];
      }
    }
  }
}

// A row's groups as column `col` of a block.
void WriteInt4Column(std::span<const Int4Group> groups, int64_t block_cols, int64_t col,
                     uint32_t* words) {
  constexpr int64_t kWords = kInt4GroupSize / 8;
  for (const Int4Group& group : groups) {
    for (int64_t word = 0; word < kWords; ++word) {
      uint8_t bytes[4];
      const uint8_t* low = group.q.data() + 8 * word;
      for (int i = 0; i < 4; ++i) bytes[i] = static_cast<uint8_t>(low[i] | low[i + 4] << 4);
      std::memcpy(&words[word * block_cols + col], bytes, sizeof(bytes));
    }
    auto* const factors = reinterpret_cast<std::byte*>(words + kWords * block_cols);
    std::byte* const zeros = factors + block_cols * static_cast<int64_t>(sizeof(F16));
    std::memcpy(factors + col * static_cast<int64_t>(sizeof(F16)), &group.factor, sizeof(F16));
    zeros[col] = std::byte{group.zero};
    words += block_cols * kInt4GroupBytes / 4;
  }
}

// Where in a block of FP8 the two bytes of a column are (GemmKernel::Layout::kFloat8Panels).
int64_t Float8Place(const GemmKernel& kernel, int64_t col) {
  const int64_t in_two = col % (2 * kernel.lanes);
  const int64_t four = in_two % kernel.lanes / 4;
  return col - in_two + 8 * four + 4 * (in_two / kernel.lanes) + col % 4;
}

// Scales of groups are `stride` apart.
void PackFloat8Block(const GemmKernel& kernel, std::span<const WeightRow> rows, int64_t k,
                     int64_t num_groups, int64_t stride, const BlockOut& out) {
  auto* const bytes = reinterpret_cast<uint8_t*>(out.words);
  for (int64_t first = 0; first < k; first += kFloat8GroupSize) {
    const int64_t end = std::min(k, first + kFloat8GroupSize), group = first / kFloat8GroupSize;
    for (size_t c = 0; c < rows.size(); ++c) {
      const auto col = static_cast<int64_t>(c);
      const F8E4M3* const row = std::get<Float8View>(*rows[c].part).Row(rows[c].row);
      uint8_t* const place = bytes + 2 * Float8Place(kernel, col);
      for (int64_t i = first; i < end; ++i) {
        place[i / 2 * kernel.block_cols * 2 + i % 2] = row[i].bits;
      }
      if (group < num_groups) out.scales[group * stride + col] = Float8Scale(rows[c], first);
    }
  }
}

void PackCodebook4Block(const GemmKernel& kernel, std::span<const WeightRow> rows, int64_t k,
                        uint32_t* words) {
  constexpr int64_t kPerWord = 8;
  std::vector<uint8_t> codes(static_cast<size_t>(k));
  const int64_t group_words = BlockWords(kernel, kernel.x_multiple);
  for (size_t c = 0; c < rows.size(); ++c) {
    const auto& view = std::get<Codebook4View>(*rows[c].part);
    view.CopyCodes(rows[c].row, 0, k, codes.data());
    const uint8_t* next = codes.data();
    uint32_t* group = words + c;
    for (int64_t first = 0; first < k; first += kernel.group_size, group += group_words) {
      uint32_t* word = group;
      for (int64_t i = 0; i < kernel.group_size; i += kPerWord, word += kernel.block_cols) {
        for (int place = 0; place < kPerWord; ++place) {
          *word |= uint32_t{*next++} << (4 * (place / 2) + 16 * (place % 2));
        }
      }
      const float scale = Codebook4Scale(rows[c], first);
      std::memcpy(word, &scale, sizeof(scale));
    }
  }
}

// `order`: the columns' (PackedMatrix).
void PackInt4Block(const GemmKernel& kernel, std::span<const WeightRow> rows, int64_t k,
                   std::span<const int32_t> order, const BlockOut& out) {
  std::vector<Int4Group> groups(static_cast<size_t>(CeilDiv(k, kInt4GroupSize)));
  for (size_t c = 0; c < rows.size(); ++c) {
    out.scales[c] = ToInt4(rows[c], order, groups);
    WriteInt4Column(groups, kernel.block_cols, static_cast<int64_t>(c), out.words);
  }
}

}  // namespace

bool AreInt4(const std::vector<WeightView>& parts) {
  const auto* const first = std::get_if<Int4View>(&parts.front());
  return first != nullptr && std::ranges::all_of(parts, [&](const WeightView& part) {
           const auto* const int4 = std::get_if<Int4View>(&part);
           return int4 != nullptr && int4->HasSameGroupsAs(*first);
         });
}

bool AreInt8(const std::vector<WeightView>& parts) {
  return std::ranges::all_of(parts, [](const WeightView& part) {
    const auto* const int8 = std::get_if<Int8View>(&part);
    return int8 != nullptr && int8->cols() <= kMaxInt8Depth;
  });
}

bool AreFloat8(const std::vector<WeightView>& parts) {
  return std::ranges::all_of(parts, [](const WeightView& part) {
    const auto* const float8 = std::get_if<Float8View>(&part);
    return float8 != nullptr &&
           (float8->blocks() == 1 || float8->block_cols % kFloat8GroupSize == 0);
  });
}

bool AreCodebook4(const std::vector<WeightView>& parts, WeightFormat format) {
  const int64_t group_size = Codebook4GroupSize(format);
  const auto* const first = std::get_if<Codebook4View>(&parts.front());
  return first != nullptr && std::ranges::all_of(parts, [&](const WeightView& part) {
           const auto* const view = std::get_if<Codebook4View>(&part);
           return view != nullptr && view->codebook == first->codebook &&
                  view->cols % group_size == 0 && view->block_size % group_size == 0;
         });
}

PackedMatrix Pack(CpuContext& context, const std::vector<WeightView>& parts, WeightFormat format) {
  CHECK(!parts.empty());
  const GemmKernel& kernel = KernelFor(context, format, DType::kBF16);
  PackedMatrix packed{.isa = context.isa(), .format = format, .k = ShapeOf(parts[0]).at(1)};
  for (const WeightView& part : parts) {
    const Shape shape = ShapeOf(part);
    CHECK_EQ(shape.at(1), packed.k);
  }
  const std::vector<WeightRow> rows = RowsOf(parts);
  packed.n = static_cast<int64_t>(rows.size());
  const int64_t block_cols = kernel.block_cols;
  const int64_t block_words = BlockWords(kernel, XWords(packed.k, format, kernel));
  const int64_t blocks = CeilDiv(packed.n, block_cols);
  packed.data = Buffer(static_cast<size_t>(blocks * block_words) * 4);
  if (RoundsActivations(format)) packed.scales.resize(rows.size());
  if (format == WeightFormat::kInt8) {
    CHECK_LE(packed.k, kMaxInt8Depth);
    packed.sums.resize(rows.size());
  }
  if (format == WeightFormat::kFloat8) {
    CHECK(AreFloat8(parts));
    packed.has_group_scales = HasSeveralScales(parts);
    const int64_t groups = packed.has_group_scales ? CeilDiv(packed.k, kFloat8GroupSize) : 1;
    packed.scales.resize(static_cast<size_t>(groups * blocks * block_cols));
  }
  if (IsCodebook4(format)) {
    CHECK(AreCodebook4(parts, format));
    packed.codebook = std::get<Codebook4View>(parts.front()).codebook;
    for (size_t i = 0; i < packed.codebook_bf16.size(); ++i) {
      packed.codebook_bf16[i] = ToBF16(packed.codebook[i % packed.codebook.size()]).bits;
    }
  }
  if (format == WeightFormat::kInt4 && AreInt4(parts)) {
    packed.order = std::get<Int4View>(parts.front()).InputsByGroup();
  }
  context.threads().ParallelFor(blocks, [&](int64_t block) {
    const int64_t first = block * block_cols;
    const auto block_rows = std::span(rows).subspan(
        static_cast<size_t>(first), static_cast<size_t>(std::min(block_cols, packed.n - first)));
    const BlockOut out{packed.data.as<uint32_t>() + block * block_words,
                       packed.scales.empty() ? nullptr : packed.scales.data() + first,
                       packed.sums.empty() ? nullptr : packed.sums.data() + first};
    if (format == WeightFormat::kInt4) {
      PackInt4Block(kernel, block_rows, packed.k, packed.order, out);
    } else if (IsCodebook4(format)) {
      PackCodebook4Block(kernel, block_rows, packed.k, out.words);
    } else if (format == WeightFormat::kFloat8) {
      const int64_t stride = blocks * block_cols;
      PackFloat8Block(kernel, block_rows, packed.k, std::ssize(packed.scales) / stride, stride,
                      out);
    } else {
      PackBlock(kernel, block_rows, packed.k, format, out);
    }
  });
  return packed;
}

}  // namespace aril::kernels

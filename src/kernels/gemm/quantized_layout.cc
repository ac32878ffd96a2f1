#include "kernels/gemm/quantized_layout.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/gemm/weight_rows.h"

namespace aril::kernels {
namespace {

static_assert(kQuantizedDepth == kInt4GroupSize);

constexpr int64_t kLanes = 32;
constexpr int64_t kOutputsOfLane = 4;
constexpr int64_t kInputsOfLane = 8;
constexpr int64_t kVectorBytes = 16;
constexpr int64_t kHalfChunkBytes = kLanes * kVectorBytes;

bool IsOfBytes(WeightFormat format) {
  return format == WeightFormat::kInt8 || format == WeightFormat::kFloat8;
}

int64_t ChunkBytes(WeightFormat format) { return (IsOfBytes(format) ? 2 : 1) * kHalfChunkBytes; }

// An output's place among those of a tile.
struct Place {
  explicit Place(size_t col)
      : g(static_cast<int64_t>(col) % 8), of_lane(static_cast<int64_t>(col) / 8) {}
  int64_t Lane(int64_t t) const { return 4 * g + t; }
  int64_t index() const { return g * kOutputsOfLane + of_lane; }

  int64_t g, of_lane;
};

template <typename T>
void Store(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof(value));
}

// Of a chunk of four bits, words that `word_of` makes of eight of its levels or codes.
template <typename WordOf>
void WriteWords(const uint8_t* of_inputs, const Place& place, const WordOf& word_of,
                std::byte* to) {
  for (int64_t t = 0; t < kQuantizedDepth / kInputsOfLane; ++t) {
    const uint32_t word = word_of(of_inputs + kInputsOfLane * t);
    Store(to + place.Lane(t) * kVectorBytes + place.of_lane * 4, word);
  }
}

uint32_t WordOfLevels(const uint8_t* q) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(q[2 * i] | q[2 * i + 1] << 16) << 4 * i;
  }
  return word;
}

uint32_t WordOfCodes(const uint8_t* codes) {
  uint32_t word = 0;
  for (int i = 0; i < kInputsOfLane; ++i) word |= uint32_t{codes[i]} << 4 * i;
  return word;
}

void WriteBytes(std::span<const uint8_t> levels, const Place& place, std::byte* to) {
  for (size_t k = 0; k < levels.size(); ++k) {
    const auto in_chunk = static_cast<int64_t>(k) % kQuantizedDepth;
    const int64_t chunk = static_cast<int64_t>(k) / kQuantizedDepth;
    const int64_t half = 2 * chunk + place.of_lane / 2;
    const int64_t lane = place.Lane(in_chunk / kInputsOfLane);
    to[half * kHalfChunkBytes + lane * kVectorBytes + place.of_lane % 2 * kInputsOfLane +
       in_chunk % kInputsOfLane] = std::byte{levels[k]};
  }
}

float WriteInt4(const QuantizedLayout& layout, const WeightRow& row,
                std::span<const int32_t> inputs, const Place& place, std::byte* to) {
  std::vector<Int4Group> groups(static_cast<size_t>(layout.chunks));
  const float scale = ToInt4(row, inputs, groups);
  for (int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
    WriteWords(groups[static_cast<size_t>(chunk)].q.data(), place, WordOfLevels,
               to + chunk * kHalfChunkBytes);
  }
  for (int64_t i = 0; i * layout.group_chunks < layout.chunks; ++i) {
    const Int4Group& group = groups[static_cast<size_t>(i * layout.group_chunks)];
    const int64_t index = i * kQuantizedCols + place.index();
    Store(to + layout.factors_offset + index * static_cast<int64_t>(sizeof(F16)), group.factor);
    to[layout.zeros_offset + index] = std::byte{group.zero};
  }
  return scale;
}

float WriteInt8(const WeightRow& row, const Place& place, std::span<uint8_t> levels,
                std::byte* to) {
  const float scale = Int8Scale(row);
  auto* const with_sign = reinterpret_cast<int8_t*>(levels.data());
  CopyAsInt8(row, scale, 0, std::ssize(levels), with_sign);
  for (uint8_t& level : levels) level ^= 128;  // as 128 more of one with a sign
  WriteBytes(levels, place, to);
  return scale;
}

// `factor_of(input)`.
template <typename FactorOf>
void WriteFloatFactors(const QuantizedLayout& layout, const Place& place, const FactorOf& factor_of,
                       std::byte* to) {
  for (int64_t i = 0; i * layout.group_chunks < layout.chunks; ++i) {
    const int64_t index = i * kQuantizedCols + place.index();
    const float factor = factor_of(i * layout.group_chunks * kQuantizedDepth);
    Store(to + layout.factors_offset + index * static_cast<int64_t>(sizeof(float)), factor);
  }
}

void WriteFloat8(const QuantizedLayout& layout, const WeightRow& row, const Place& place,
                 std::byte* to) {
  const auto& view = std::get<Float8View>(*row.part);
  CHECK(view.blocks() == 1 || view.block_cols % (layout.group_chunks * kQuantizedDepth) == 0);
  const F8E4M3* const levels = view.Row(row.row);
  WriteBytes({reinterpret_cast<const uint8_t*>(levels), static_cast<size_t>(layout.k)}, place, to);
  WriteFloatFactors(
      layout, place, [&](int64_t input) { return Float8Scale(row, input); }, to);
}

void WriteCodes(const QuantizedLayout& layout, const WeightRow& row, const Place& place,
                std::byte* to) {
  const auto& view = std::get<Codebook4View>(*row.part);
  CHECK(std::ranges::equal(view.codebook, layout.codebook));
  CHECK_EQ(layout.k % kQuantizedDepth, 0);
  const int64_t group_size = layout.group_chunks * int64_t{kQuantizedDepth};
  CHECK_EQ(view.block_size % group_size, 0);
  CHECK_EQ((view.first_row + row.row) * view.cols % group_size, 0);
  std::vector<uint8_t> codes(static_cast<size_t>(layout.k));
  view.CopyCodes(row.row, 0, layout.k, codes.data());
  for (int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
    WriteWords(codes.data() + chunk * kQuantizedDepth, place, WordOfCodes,
               to + chunk * kHalfChunkBytes);
  }
  WriteFloatFactors(
      layout, place, [&](int64_t input) { return Codebook4Scale(row, input); }, to);
}

}  // namespace

QuantizedLayout MakeQuantizedLayout(WeightFormat format, int64_t n, int64_t k, int64_t group_size,
                                    const Codebook4& codebook) {
  CHECK(IsQuantized(format));
  const int64_t chunks = CeilDiv<int64_t>(k, kQuantizedDepth);
  QuantizedLayout layout{.format = format,
                         .n = static_cast<int32_t>(n),
                         .k = static_cast<int32_t>(k),
                         .chunks = static_cast<int32_t>(chunks)};
  std::ranges::copy(codebook, layout.codebook);
  int64_t end = chunks * ChunkBytes(format);
  if (format != WeightFormat::kInt8) {
    const bool is_int4 = format == WeightFormat::kInt4;
    CHECK(group_size >= k || group_size % kQuantizedDepth == 0);
    const int64_t group_chunks = std::min(CeilDiv<int64_t>(group_size, kQuantizedDepth), chunks);
    const int64_t outputs = CeilDiv(chunks, group_chunks) * kQuantizedCols;
    layout.group_chunks = static_cast<int32_t>(group_chunks);
    layout.factors_offset = static_cast<int32_t>(end);
    end += outputs * static_cast<int64_t>(is_int4 ? sizeof(F16) : sizeof(float));
    layout.zeros_offset = static_cast<int32_t>(end);
    if (is_int4) end += outputs;
  }
  layout.scales_offset = static_cast<int32_t>(end);
  layout.tile_bytes =
      static_cast<int32_t>(end + kQuantizedCols * static_cast<int64_t>(sizeof(float)));
  return layout;
}

void WriteQuantizedTile(const QuantizedLayout& layout, std::span<const WeightRow> rows,
                        std::span<const int32_t> inputs, std::byte* to) {
  CHECK_LE(rows.size(), static_cast<size_t>(kQuantizedCols));
  const bool is_int8 = layout.format == WeightFormat::kInt8;
  std::memset(to, 0, static_cast<size_t>(layout.tile_bytes));
  if (is_int8) std::memset(to, 128, static_cast<size_t>(layout.scales_offset));
  std::vector<uint8_t> levels(is_int8 ? static_cast<size_t>(layout.k) : 0);
  for (size_t col = 0; col < rows.size(); ++col) {
    const Place place(col);
    float scale = 1;
    if (is_int8) {
      scale = WriteInt8(rows[col], place, levels, to);
    } else if (layout.format == WeightFormat::kInt4) {
      scale = WriteInt4(layout, rows[col], inputs, place, to);
    } else if (layout.format == WeightFormat::kFloat8) {
      WriteFloat8(layout, rows[col], place, to);
    } else {
      WriteCodes(layout, rows[col], place, to);
    }
    Store(to + layout.scales_offset + col * sizeof(float), scale);
  }
}

}  // namespace aril::kernels

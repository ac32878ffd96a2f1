#include "kernels/gemm/weight_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "base/check.h"
#include "base/checked.h"

namespace aril::kernels {
namespace {

constexpr float kLargestByte = 127;

std::vector<float> Floats(const WeightRow& row) {
  const int64_t cols = ShapeOf(*row.part).at(1);
  std::vector<float> values(static_cast<size_t>(cols));
  CopyAsFloat(*row.part, row.row * cols, cols, values.data());
  return values;
}

}  // namespace

std::vector<WeightRow> RowsOf(const std::vector<WeightView>& parts) {
  std::vector<WeightRow> rows;
  for (const WeightView& part : parts) {
    for (int64_t row = 0; row < ShapeOf(part).at(0); ++row) rows.push_back({&part, row});
  }
  return rows;
}

float ToInt4(const WeightRow& row, std::span<const int32_t> inputs, std::span<Int4Group> groups) {
  if (const auto* const int4 = std::get_if<Int4View>(row.part); int4 != nullptr) {
    CHECK(!inputs.empty() || int4->order.data == nullptr);
    return CopyInt4(*int4, row.row, inputs, groups);
  }
  return QuantizeToInt4(Floats(row), groups);
}

float Int8Scale(const WeightRow& row) {
  if (const auto* const int8 = std::get_if<Int8View>(row.part); int8 != nullptr) {
    return int8->Scale(row.row);
  }
  float largest = 0;
  for (const float value : Floats(row)) largest = std::max(largest, std::fabs(value));
  return largest / kLargestByte;
}

void CopyAsInt8(const WeightRow& row, float scale, int64_t first, int64_t count, int8_t* to) {
  if (const auto* const int8 = std::get_if<Int8View>(row.part); int8 != nullptr) {
    std::copy_n(int8->Row(row.row) + first, count, to);
    return;
  }
  const float inverse = scale > 0 ? 1 / scale : 0;
  const int64_t begin = row.row * ShapeOf(*row.part).at(1) + first;
  std::array<float, 256> values;
  for (int64_t done = 0; done < count; done += std::ssize(values)) {
    const int64_t some = std::min(std::ssize(values), count - done);
    CopyAsFloat(*row.part, begin + done, some, values.data());
    for (int64_t i = 0; i < some; ++i) {
      const float q = std::nearbyint(values[static_cast<size_t>(i)] * inverse);
      to[done + i] = static_cast<int8_t>(std::clamp(q, -kLargestByte, kLargestByte));
    }
  }
}

float Float8Scale(const WeightRow& row, int64_t input) {
  const auto& view = std::get<Float8View>(*row.part);
  return view.Scale(row.row, input / view.block_cols);
}

bool HasSeveralScales(const std::vector<WeightView>& parts) {
  return std::ranges::any_of(
      parts, [](const WeightView& part) { return std::get<Float8View>(part).blocks() > 1; });
}

float Codebook4Scale(const WeightRow& row, int64_t input) {
  const auto& view = std::get<Codebook4View>(*row.part);
  return view.Scale(view.BlockOf(row.row, input));
}

std::vector<double> ValuesIn(WeightFormat format, const WeightRow& row,
                             std::span<const int32_t> inputs) {
  const auto k = static_cast<size_t>(ShapeOf(*row.part).at(1));
  std::vector<double> values;
  if (format == WeightFormat::kInt8) {
    std::vector<int8_t> levels(k);
    const float scale = Int8Scale(row);
    CopyAsInt8(row, scale, 0, std::ssize(levels), levels.data());
    for (const int8_t level : levels) values.push_back(double{scale} * level);
    return values;
  }
  if (format == WeightFormat::kFloat8) {
    const F8E4M3* const levels = std::get<Float8View>(*row.part).Row(row.row);
    for (size_t i = 0; i < k; ++i) {
      values.push_back(double{Float8Scale(row, static_cast<int64_t>(i))} * ToFloat(levels[i]));
    }
    return values;
  }
  if (IsCodebook4(format)) {
    const auto& view = std::get<Codebook4View>(*row.part);
    std::vector<uint8_t> codes(k);
    view.CopyCodes(row.row, 0, std::ssize(codes), codes.data());
    for (size_t i = 0; i < k; ++i) {
      const double scale = Codebook4Scale(row, static_cast<int64_t>(i));
      values.push_back(scale * view.codebook[codes[i]]);
    }
    return values;
  }
  CHECK(format == WeightFormat::kInt4);
  constexpr auto kGroup = static_cast<size_t>(kInt4GroupSize);
  std::vector<Int4Group> groups(CeilDiv(k, kGroup));
  const float scale = ToInt4(row, inputs, groups);
  for (size_t i = 0; i < k; ++i) {
    const Int4Group& group = groups[i / kGroup];
    values.push_back(double{scale} * ToFloat(group.factor) * (group.q[i % kGroup] - group.zero));
  }
  return values;
}

}  // namespace aril::kernels

#include "model/cuda_head.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/checked.h"

namespace aril {
namespace {

using kernels::LoraMatrix;
using kernels::LoraPlanSegment;
using kernels::PagedGemmPart;

// Of a wider product's rows, which begin where any algorithm for the base model's can write them.
constexpr int64_t kWidthMultiple = 8;

// Any part may be read in pieces of 16 bytes.
constexpr size_t kAlignment = 16;

// Which of `rows` a segment has: [begin, end).
struct Range {
  int32_t begin;
  int32_t end;
};
Range RangeOf(const BatchSegment& segment, std::span<const int32_t> rows) {
  const auto index = [&](int32_t row) {
    return static_cast<int32_t>(std::ranges::lower_bound(rows, row) - rows.begin());
  };
  return {index(segment.first_row), index(segment.first_row + segment.num_rows)};
}

}  // namespace

CudaHead::CudaHead(const ModelSpec& spec, int num_multiprocessors, std::span<const int32_t> rows,
                   std::span<const kernels::SampleRow> how,
                   std::span<const CudaHeadSegment> segments)
    : rows_(rows), how_(how), width_(spec.vocab_size) {
  for (const CudaHeadSegment& each : segments) {
    const int64_t vocab = each.segment.adapter->outer().vocab;
    if (vocab > spec.vocab_size) width_ = std::max(width_, RoundUp(vocab, kWidthMultiple));
  }
  CHECK(std::ranges::is_sorted(rows));
  PlanOwn(segments);
  PlanLora(spec, num_multiprocessors, segments);
  Place();
}

int64_t CudaHead::WidestWidth(const ModelSpec& spec) {
  return RoundUp(spec.vocab_size + kMaxAddedTokens, kWidthMultiple);
}

// Of several the last one counts, as it does where they are computed one after the other.
void CudaHead::PlanOwn(std::span<const CudaHeadSegment> segments) {
  std::vector<const LoraMatrix*> own(rows_.size());
  for (const CudaHeadSegment& each : segments) {
    const LoraMatrix& matrix = each.segment.adapter->outer().lm_head_table;
    if (matrix.runs.empty()) continue;
    const Range range = RangeOf(each.segment, rows_);
    std::fill(own.begin() + range.begin, own.begin() + range.end, &matrix);
  }
  std::vector<PagedGemmPart> parts;
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] == nullptr) continue;
    if (i == 0 || own[i] != own[i - 1]) parts.push_back({static_cast<int32_t>(i), 0, *own[i]});
    ++parts.back().num_rows;
  }
  if (!parts.empty()) own_.emplace(parts);
}

void CudaHead::PlanLora(const ModelSpec& spec, int num_multiprocessors,
                        std::span<const CudaHeadSegment> segments) {
  std::vector<LoraPlanSegment> parts;
  int64_t block_cols = 0;
  for (const CudaHeadSegment& each : segments) {
    const Range range = RangeOf(each.segment, rows_);
    if (each.table.lm_head_rank == 0 || range.begin == range.end) continue;
    parts.push_back({range.begin,
                     range.end - range.begin,
                     each.segment.weight,
                     each.table.lm_head,
                     {&each.table.lm_head_rank, 1},
                     each.segment.adapter->outer().vocab});
    CHECK(block_cols == 0 || block_cols == each.table.lm_head_block_cols);
    block_cols = each.table.lm_head_block_cols;
  }
  if (parts.empty()) return;
  const int64_t outs[] = {spec.vocab_size};
  lora_.emplace(kernels::LoraPlanShape{spec.hidden_size, outs, num_multiprocessors, block_cols},
                parts);
}

void CudaHead::Place() {
  how_offset_ = RoundUp(rows_.size_bytes(), kAlignment);
  own_offset_ = RoundUp(how_offset_ + how_.size_bytes(), kAlignment);
  lora_offset_ = RoundUp(own_offset_ + (own_ ? own_->table_bytes() : 0), kAlignment);
  size_bytes_ = lora_offset_ + (lora_ ? static_cast<size_t>(lora_->table_bytes()) : 0);
}

void CudaHead::Write(std::byte* to) const {
  if (!rows_.empty()) std::memcpy(to, rows_.data(), rows_.size_bytes());
  if (!how_.empty()) std::memcpy(to + how_offset_, how_.data(), how_.size_bytes());
  if (own_) own_->Write(to + own_offset_);
  if (lora_) lora_->Write(to + lora_offset_);
}

}  // namespace aril

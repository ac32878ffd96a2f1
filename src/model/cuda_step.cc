#include "model/cuda_step.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "model/cuda_experts.h"

namespace aril {
namespace {

using kernels::KvRow;
using kernels::LoraPlan;
using kernels::LoraPlanSegment;

// Any part may be read in pieces of 16 bytes.
constexpr size_t kAlignment = 16;

// Ranks of rounded shapes are this or the largest. An adapter that comes should not make a new
// shape, whose first steps take twice as long; what a larger one costs is shared memory, of which
// the usual one takes 5 KB for a block.
constexpr int32_t kUsualRank = 64;
// Adapters of experts that a row of a rounded shape has, at most: V has room for so many of each.
constexpr int32_t kMaxRoundedEntries = 4;

template <typename T>
T NextPowerOfTwo(T value) {
  return static_cast<T>(std::bit_ceil(static_cast<uint64_t>(value)));
}

// 1, 2, 4, 8, 16, 24, …: what a product of padded rows takes longer is little, and shapes are few.
int32_t RoundRows(int32_t rows) {
  return rows <= 8 ? NextPowerOfTwo(rows) : static_cast<int32_t>(CudaStep::MaxLaunchedRows(rows));
}

// Of the layers of a model.
std::vector<size_t> LayerPlansOf(const ModelSpec& spec) {
  std::vector<size_t> plans;
  for (const ProjectionGroup group : ProjectionGroupsOf(spec)) {
    plans.push_back(static_cast<size_t>(group));
  }
  if (spec.experts) plans.push_back(kRouterPlan);
  return plans;
}
std::vector<size_t> PlansOf(const ModelSpec& spec) {
  std::vector<size_t> plans = LayerPlansOf(spec);
  plans.push_back(kEmbeddingPlan);
  return plans;
}

// Of a plan. An embedding's x is one-hot (kernels/embedding/embedding_cuda.h).
int64_t InOf(const ModelSpec& spec, size_t plan) {
  if (plan == kEmbeddingPlan) return 1;
  return plan == kRouterPlan ? spec.hidden_size : InFeatures(spec, kAllProjectionGroups[plan]);
}

std::vector<int64_t> OutsOf(const ModelSpec& spec, size_t plan) {
  if (plan == kEmbeddingPlan) return {spec.hidden_size};
  if (plan == kRouterPlan) return {spec.experts->count};
  std::vector<int64_t> outs;
  for (const Projection projection : ProjectionsOf(kAllProjectionGroups[plan])) {
    outs.push_back(spec.OutFeatures(projection));
  }
  return outs;
}

// Of a layer's plan, the first site; the others, as many as it has outs, follow.
Site FirstSiteOf(size_t plan) {
  return plan == kRouterPlan ? Site::Router() : ProjectionsOf(kAllProjectionGroups[plan]).front();
}

}  // namespace

std::array<bool, kMaxAttentionPlans> AttentionPlansOf(const ModelSpec& spec) {
  std::array<bool, kMaxAttentionPlans> plans = {};
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    plans[AttentionPlanOf(spec, layer)] = true;
  }
  return plans;
}

CudaStep::CudaStep(const ModelSpec& spec, const kernels::AttentionPlanShape& attention,
                   const ForwardBatch& batch, std::span<const CudaAdapters::Table> tables)
    : batch_(batch), tables_(tables) {
  CHECK_EQ(tables.size(), batch.segments.size());
  const int num_multiprocessors = attention.num_multiprocessors;
  shape_ = {.rows = static_cast<int32_t>(batch.tokens.size())};
  if (spec.linear_attention) shape_.sequences = static_cast<int32_t>(batch.sequences.size());
  PlanAttention(spec, attention);
  PlanAdapters(spec, num_multiprocessors);
  PlanEmbedding(spec, num_multiprocessors);
  PlanExperts();
  PartBytes bytes;
  for (size_t plan = 0; plan < kNumStepPlans; ++plan) {
    if (!plans_[plan]) continue;
    shape_.touched |= 1U << plan;
    shape_.max_rank = std::max(shape_.max_rank, plans_[plan]->max_rank());
    v_floats_ = std::max(v_floats_, plans_[plan]->v_floats());
    bytes.lora[plan] = static_cast<size_t>(plans_[plan]->table_bytes());
  }
  if (experts_) {
    const int32_t entries = experts_->max_entries(), rank = experts_->max_rank();
    shape_.expert_chunk_rows = CudaExperts::ChunkRows(spec, shape_.rows, entries, rank);
    shape_.max_rank = std::max(shape_.max_rank, rank);
    v_floats_ = std::max(v_floats_, CudaExperts::VFloats(spec, shape_.rows, entries, rank));
    bytes.expert_lora = experts_->table_bytes(shape_.rows);
  }
  if (!PlaceWithin(spec, num_multiprocessors)) Place(bytes);
}

void CudaStep::PlanAttention(const ModelSpec& spec, kernels::AttentionPlanShape shape) {
  const auto exists = AttentionPlansOf(spec);
  for (size_t i = 0; i < kMaxAttentionPlans; ++i) {
    if (!exists[i]) continue;
    const bool has_window = i == 1;
    shape.window = has_window ? *spec.sliding_window : INT64_MAX;
    const kernels::AttentionPlan& plan = attention_[i].emplace(shape, batch_.sequences);
    shape_.attention[i] = {.items = static_cast<int32_t>(plan.items().size()),
                           .tiles = plan.is_split() ? static_cast<int32_t>(plan.tiles().size()) : 0,
                           .has_wide_tiles = plan.has_wide_tiles()};
  }
}

CudaStep::Size CudaStep::LargestRounded(const ModelSpec& spec, const SequencePages& pages,
                                        int64_t max_rows, int64_t max_positions) {
  const int64_t rows = std::min(kMaxRoundedRows, MaxLaunchedRows(max_rows));
  const int64_t num_pages = rows * pages.For(max_positions);
  Size size;
  const auto add = [&size](int64_t bytes) {
    size.table_bytes += RoundUp(static_cast<size_t>(bytes), kAlignment);
  };
  for (const size_t plan : PlansOf(spec)) {
    const std::vector<int64_t> outs = OutsOf(spec, plan);
    const kernels::LoraPlanBounds bounds =
        kernels::BoundLoraPlan({InOf(spec, plan), outs}, rows, rows, kernels::kLoraMaxExpandRank);
    add(bounds.table_bytes);
    size.v_floats = std::max(size.v_floats, bounds.v_floats);
  }
  if (spec.experts) {
    const auto max_rows_of_shape = static_cast<int32_t>(rows);
    add(static_cast<int64_t>(
        kernels::MaxExpertLoraTableBytes(max_rows_of_shape, kMaxRoundedEntries)));
    size.v_floats =
        std::max(size.v_floats, CudaExperts::VFloats(spec, max_rows_of_shape, kMaxRoundedEntries,
                                                     kernels::kLoraMaxExpandRank));
  }
  add(int64_t{sizeof(int32_t)});
  add(rows * int64_t{sizeof(int32_t)});
  add(rows * int64_t{sizeof(KvRow)});
  add(rows * int64_t{sizeof(const kernels::LoraDeviceMatrix*)});
  add(num_pages * int64_t{sizeof(std::byte*)});
  if (spec.linear_attention) {
    add(rows * int64_t{sizeof(kernels::DeltaSequence)});
    add(rows * int64_t{sizeof(int32_t)});
  }
  for (const bool exists : AttentionPlansOf(spec)) {
    if (!exists) continue;
    add(int64_t{sizeof(kernels::AttentionTables)});
    add(static_cast<int64_t>(
        kernels::MaxAttentionListsBytes(spec.num_heads / spec.num_kv_heads, rows, max_positions)));
  }
  return size;
}

void CudaStep::PlanAdapters(const ModelSpec& spec, int num_multiprocessors) {
  for (const size_t plan : LayerPlansOf(spec)) {
    const std::vector<int64_t> outs = OutsOf(spec, plan);
    const auto first = static_cast<size_t>(FirstSiteOf(plan).index());
    std::vector<LoraPlanSegment> segments;
    for (size_t i = 0; i < tables_.size(); ++i) {
      const BatchSegment& segment = batch_.segments[i];
      const auto ranks = std::span(tables_[i].ranks).subspan(first, outs.size());
      if (std::ranges::all_of(ranks, [](int32_t rank) { return rank == 0; })) continue;
      segments.push_back(
          {segment.first_row, segment.num_rows, segment.weight, tables_[i].weights + first, ranks});
    }
    if (segments.empty()) continue;
    plans_[plan].emplace(kernels::LoraPlanShape{InOf(spec, plan), outs, num_multiprocessors},
                         segments);
  }
}

void CudaStep::PlanExperts() {
  std::vector<kernels::ExpertLoraSegment> segments;
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].expert_rank == 0) continue;
    const BatchSegment& segment = batch_.segments[i];
    segments.push_back({segment.first_row, segment.num_rows, segment.weight, tables_[i].experts,
                        tables_[i].expert_rank});
  }
  if (!segments.empty()) experts_.emplace(segments);
}

// A table of an adapter's own comes in place of the base model's. The gather reads it, so that all
// segments of the row add to it, wherever they stand.
void CudaStep::FindOwnEmbeddings() {
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].own_embedding == nullptr) continue;
    own_embeddings_.resize(batch_.tokens.size());
    const BatchSegment& segment = batch_.segments[i];
    std::fill_n(own_embeddings_.begin() + segment.first_row, segment.num_rows,
                tables_[i].own_embedding);
  }
  shape_.has_own_embeddings = !own_embeddings_.empty();
}

void CudaStep::PlanEmbedding(const ModelSpec& spec, int num_multiprocessors) {
  FindOwnEmbeddings();
  std::vector<LoraPlanSegment> segments;
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].embedding_rank == 0) continue;
    const BatchSegment& segment = batch_.segments[i];
    segments.push_back({segment.first_row,
                        segment.num_rows,
                        segment.weight,
                        tables_[i].embedding,
                        {&tables_[i].embedding_rank, 1}});
  }
  if (segments.empty()) return;
  const std::vector<int64_t> outs = OutsOf(spec, kEmbeddingPlan);
  plans_[kEmbeddingPlan].emplace(
      kernels::LoraPlanShape{InOf(spec, kEmbeddingPlan), outs, num_multiprocessors}, segments);
}

bool CudaStep::PlaceWithin(const ModelSpec& spec, int num_multiprocessors) {
  if (shape_.rows > kMaxRoundedRows) return false;
  if (experts_ && experts_->max_entries() > kMaxRoundedEntries) return false;
  CudaStepShape rounded = {.rows = RoundRows(shape_.rows),
                           .attention = shape_.attention,
                           .sequences = spec.linear_attention ? RoundRows(shape_.rows) : 0,
                           .touched = shape_.touched,
                           .has_own_embeddings = shape_.has_own_embeddings,
                           .is_rounded = true};
  PartBytes bytes;
  int64_t v_floats = 0;
  for (CudaStepShape::Attention& attention : rounded.attention) {
    if (attention.items > 0) attention.items = NextPowerOfTwo(attention.items);
    if (attention.tiles > 0) attention.tiles = NextPowerOfTwo(attention.tiles);
  }
  if (shape_.max_rank > 0) {
    rounded.max_rank = shape_.max_rank <= kUsualRank ? kUsualRank : kernels::kLoraMaxExpandRank;
    // For the same reason: a plan may be empty.
    for (const size_t plan : LayerPlansOf(spec)) rounded.touched |= 1U << plan;
  }
  for (size_t plan = 0; plan < kNumStepPlans; ++plan) {
    if (!rounded.Touches(plan)) continue;
    const std::vector<int64_t> outs = OutsOf(spec, plan);
    const kernels::LoraPlanBounds bounds =
        kernels::BoundLoraPlan({InOf(spec, plan), outs, num_multiprocessors}, rounded.rows,
                               rounded.rows, rounded.max_rank);
    if (plans_[plan] && !plans_[plan]->CheckWithin(bounds).ok()) return false;
    bytes.lora[plan] = static_cast<size_t>(bounds.table_bytes);
    v_floats = std::max(v_floats, bounds.v_floats);
  }
  if (experts_) {
    bytes.expert_lora = kernels::MaxExpertLoraTableBytes(rounded.rows, kMaxRoundedEntries);
    rounded.expert_chunk_rows =
        CudaExperts::ChunkRows(spec, rounded.rows, kMaxRoundedEntries, rounded.max_rank);
    v_floats = std::max(
        v_floats, CudaExperts::VFloats(spec, rounded.rows, kMaxRoundedEntries, rounded.max_rank));
  }
  for (size_t plan = 0; plan < kNumStepPlans; ++plan) {
    if (!rounded.Touches(plan) || plans_[plan]) continue;
    const std::vector<int64_t> outs = OutsOf(spec, plan);
    plans_[plan].emplace(kernels::LoraPlanShape{InOf(spec, plan), outs, num_multiprocessors},
                         std::span<const LoraPlanSegment>());
  }
  shape_ = rounded;
  v_floats_ = v_floats;
  Place(bytes);
  return true;
}

void CudaStep::Place(const PartBytes& bytes) {
  size_t end = 0;
  // Of `size_bytes`, those that are used come first.
  const auto place_part = [&](size_t size_bytes, size_t used_bytes) {
    CHECK_LE(used_bytes, size_bytes);
    const size_t offset = end;
    end = RoundUp(end + size_bytes, kAlignment);
    if (!pieces_.empty()) {
      Piece& last = pieces_.back();
      if (RoundUp(last.offset + last.size_bytes, kAlignment) == offset) {
        last.size_bytes = offset + used_bytes - last.offset;
        return offset;
      }
    }
    pieces_.push_back({offset, used_bytes});
    return offset;
  };
  const auto place = [&](size_t size_bytes) { return place_part(size_bytes, size_bytes); };
  const auto rows = static_cast<size_t>(shape_.rows);
  layout_.num_rows = place(sizeof(int32_t));
  layout_.tokens = place(rows * sizeof(int32_t));
  layout_.kv_rows = place(rows * sizeof(KvRow));
  if (shape_.sequences > 0) {
    const auto sequences = static_cast<size_t>(shape_.sequences);
    layout_.delta_sequences = place(sequences * sizeof(kernels::DeltaSequence));
    layout_.sequence_of_row = place(rows * sizeof(int32_t));
  }
  for (size_t i = 0; i < kMaxAttentionPlans; ++i) {
    if (attention_[i]) layout_.attention[i] = place(sizeof(kernels::AttentionTables));
  }
  if (shape_.has_own_embeddings) {
    layout_.own_embeddings = place(rows * sizeof(const kernels::LoraDeviceMatrix*));
  }
  for (size_t plan = 0; plan < kNumStepPlans; ++plan) {
    const size_t used = plans_[plan] ? static_cast<size_t>(plans_[plan]->table_bytes()) : 0;
    layout_.lora[plan] = place_part(bytes.lora[plan], used);
  }
  if (experts_) {
    layout_.expert_lora = place_part(bytes.expert_lora, experts_->table_bytes(shape_.rows));
  }
  size_t num_pages = 0;
  for (const kernels::AttentionSequence& sequence : batch_.sequences) {
    num_pages += sequence.pages.size() + sequence.state.size();
  }
  layout_.pages = place(num_pages * sizeof(std::byte*));
  for (size_t i = 0; i < kMaxAttentionPlans; ++i) {
    if (attention_[i]) layout_.attention_lists[i] = place(attention_[i]->lists_bytes());
  }
  layout_.size_bytes = end;
}

std::vector<std::byte* const*> CudaStep::WritePages(std::byte* to, const std::byte* at) const {
  std::vector<std::byte* const*> tables;
  size_t offset = layout_.pages;
  for (const kernels::AttentionSequence& sequence : batch_.sequences) {
    tables.push_back(reinterpret_cast<std::byte* const*>(at + offset));
    for (const std::span<std::byte* const> pages : {sequence.pages, sequence.state}) {
      std::ranges::copy(pages, reinterpret_cast<std::byte**>(to + offset));
      offset += pages.size_bytes();
    }
  }
  return tables;
}

void CudaStep::WriteDelta(std::byte* to, const std::vector<std::byte* const*>& pages) const {
  auto* const sequences = reinterpret_cast<kernels::DeltaSequence*>(to + layout_.delta_sequences);
  auto* const sequence_of_row = reinterpret_cast<int32_t*>(to + layout_.sequence_of_row);
  std::fill_n(sequences, shape_.sequences, kernels::DeltaSequence{});
  std::fill_n(sequence_of_row, shape_.rows, -1);
  for (size_t s = 0; s < pages.size(); ++s) {
    const kernels::AttentionSequence& sequence = batch_.sequences[s];
    sequences[s] = {.state = pages[s] + sequence.pages.size(),
                    .first_position = sequence.first_position,
                    .first_row = sequence.first_row,
                    .num_rows = sequence.num_rows,
                    .repeats = sequence.repeats ? 1 : 0};
    std::fill_n(sequence_of_row + sequence.first_row, sequence.num_rows, static_cast<int32_t>(s));
  }
}

void CudaStep::Write(std::byte* to, const std::byte* at) const {
  auto* const tokens = reinterpret_cast<int32_t*>(to + layout_.tokens);
  auto* const kv_rows = reinterpret_cast<KvRow*>(to + layout_.kv_rows);
  *reinterpret_cast<int32_t*>(to + layout_.num_rows) = static_cast<int32_t>(batch_.tokens.size());
  std::fill_n(tokens, shape_.rows, 0);
  std::fill_n(kv_rows, shape_.rows, KvRow{});
  std::ranges::copy(batch_.tokens, tokens);
  const std::vector<std::byte* const*> pages = WritePages(to, at);
  for (size_t s = 0; s < pages.size(); ++s) {
    const kernels::AttentionSequence& sequence = batch_.sequences[s];
    for (int32_t i = 0; i < sequence.num_rows; ++i) {
      kv_rows[sequence.first_row + i] = {pages[s], sequence.first_position + i};
    }
  }
  if (shape_.sequences > 0) WriteDelta(to, pages);
  for (size_t i = 0; i < kMaxAttentionPlans; ++i) {
    if (!attention_[i]) continue;
    attention_[i]->Write(*reinterpret_cast<kernels::AttentionTables*>(to + layout_.attention[i]),
                         to + layout_.attention_lists[i], at + layout_.attention_lists[i], pages);
  }
  if (shape_.has_own_embeddings) {
    auto* const own =
        reinterpret_cast<const kernels::LoraDeviceMatrix**>(to + layout_.own_embeddings);
    std::fill_n(own, shape_.rows, nullptr);
    std::ranges::copy(own_embeddings_, own);
  }
  for (size_t plan = 0; plan < kNumStepPlans; ++plan) {
    if (plans_[plan]) plans_[plan]->Write(to + layout_.lora[plan]);
  }
  if (experts_) experts_->Write(to + layout_.expert_lora, shape_.rows);
}

}  // namespace aril

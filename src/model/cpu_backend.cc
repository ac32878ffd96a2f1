#include "model/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/activation/activation.h"
#include "kernels/gated_delta/gated_delta.h"
#include "model/kernel_settings.h"
#include "model/rope_frequencies.h"

namespace aril {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;

const float* DataOrNull(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

const std::byte* RowOf(const kernels::LoraMatrix& matrix, int64_t row) {
  const auto after = std::ranges::upper_bound(matrix.runs, row, {}, &kernels::MatrixRun::first_row);
  const kernels::MatrixRun& run = *std::prev(after);
  return run.data + (row - run.first_row) * matrix.row_stride_bytes;
}

bool Touches(std::span<const kernels::LoraWeights> weights) {
  return std::ranges::any_of(weights, [](const auto& each) { return each.rank > 0; });
}

Buffer Rows(int64_t rows, int64_t cols, size_t element_bytes) {
  return Buffer(static_cast<size_t>(rows * cols) * element_bytes);
}

}  // namespace

CpuBackend::CpuBackend(const ModelSpec& spec, const kernels::KvLayout& layout,
                       PackedWeights weights, int64_t max_rows, int64_t max_positions,
                       kernels::CpuContext& context)
    : spec_(spec),
      layout_(layout),
      weights_(std::move(weights)),
      context_(context),
      embedding_scale_(EmbeddingScale(spec, layout.dtype)),
      rope_(MakeRopeTable(spec.rope, spec.head_dim, max_positions)),
      max_rows_(max_rows),
      residual_(Rows(max_rows, spec.hidden_size, sizeof(float))),
      output_(Rows(max_rows, WidestOutput(spec), sizeof(float))),
      input_(Rows(max_rows, WidestInput(spec), SizeOf(layout.dtype))),
      query_(Rows(max_rows, WidestInput(spec), SizeOf(layout.dtype))),
      expert_output_(Rows(spec.experts ? max_rows : 0, WidestOutput(spec), sizeof(float))),
      logit_residual_(Rows(kMaxLogitRows, spec.hidden_size, sizeof(float))),
      logit_output_(Rows(kMaxLogitRows, spec.hidden_size, sizeof(float))),
      hidden_states_(Rows(kMaxLogitRows, spec.hidden_size, sizeof(float))),
      logits_(Rows(kMaxLogitRows, spec.vocab_size + kMaxAddedTokens, sizeof(float))) {
  if (spec.other_rope) {
    other_rope_ = MakeRopeTable(*spec.other_rope, spec.head_dim, max_positions);
  }
}

MatrixView<float> CpuBackend::Residual() const {
  return {residual_.as<float>(), rows_, spec_.hidden_size, spec_.hidden_size};
}

MatrixView<float> CpuBackend::Output(int64_t cols) const {
  return {output_.as<float>(), rows_, cols, cols};
}

MatrixView<float> CpuBackend::Output(ProjectionGroup group) const {
  const OutputPlace place = OutputPlaceOf(spec_, group);
  return {output_.as<float>() + place.first_col, rows_, OutFeatures(spec_, group), place.stride};
}

Matrix CpuBackend::Activation(const Buffer& buffer, int64_t rows, int64_t cols) const {
  return {buffer.data(), layout_.dtype, rows, cols, cols};
}

Status CpuBackend::Begin(const ForwardBatch& batch) {
  batch_ = batch;
  rows_ = static_cast<int64_t>(batch.tokens.size());
  CHECK_LE(rows_, max_rows_);
  CheckTokens(batch, spec_.vocab_size);
  head_segments_.clear();
  for (const BatchSegment& segment : batch.segments) {
    if (segment.adapter->outer().changes_lm_head()) head_segments_.push_back(segment);
  }
  return OkStatus();
}

Status CpuBackend::Embed() {
  const MatrixView<float> residual = Residual();
  context_.threads().ParallelFor(rows_, [&](int64_t r) {
    const int64_t token = batch_.tokens[static_cast<size_t>(r)];
    CHECK(token >= 0);
    if (token >= spec_.vocab_size) {  // an adapter has it, below
      std::fill_n(residual.row(r), spec_.hidden_size, 0.0f);
      return;
    }
    CopyAsFloat(weights_.embedding, token * spec_.hidden_size, spec_.hidden_size, residual.row(r));
  });
  // A table of an adapter's own comes in place of the base's, and all others add to it, wherever
  // they stand in the request's list.
  for (const BatchSegment& segment : batch_.segments) EmbedFromOwnTable(segment);
  for (const BatchSegment& segment : batch_.segments) AddToEmbedding(segment);
  if (embedding_scale_ == 1) return OkStatus();
  context_.threads().ParallelFor(rows_, [&](int64_t r) {
    for (float& value : std::span(residual.row(r), static_cast<size_t>(spec_.hidden_size))) {
      value *= embedding_scale_;
    }
  });
  return OkStatus();
}

void CpuBackend::EmbedFromOwnTable(const BatchSegment& segment) {
  const kernels::LoraMatrix& table = segment.adapter->outer().embedding_table;
  if (table.runs.empty()) return;
  for (int32_t r = segment.first_row; r < segment.first_row + segment.num_rows; ++r) {
    const int32_t token = batch_.tokens[static_cast<size_t>(r)];
    CHECK_LT(token, segment.adapter->outer().vocab);
    const TensorView row{RowOf(table, token), layout_.dtype, {spec_.hidden_size}};
    CopyAsFloat(row, 0, spec_.hidden_size, Residual().row(r));
  }
}

void CpuBackend::AddToEmbedding(const BatchSegment& segment) {
  const std::span<const int32_t> tokens = batch_.tokens;
  const OuterWeights& outer = segment.adapter->outer();
  const auto first = static_cast<size_t>(segment.first_row);
  const auto count = static_cast<size_t>(segment.num_rows);
  if (outer.embedding_rank == 0) return;
  // A token's x is one-hot: its product with Aᵀ is a row of that.
  const int64_t rank = outer.embedding_rank;
  lora_intermediate_.resize(count * static_cast<size_t>(rank));
  for (size_t i = 0; i < count; ++i) {
    CHECK_LT(tokens[first + i], outer.vocab);
    const TensorView row{RowOf(outer.embedding_a, tokens[first + i]), layout_.dtype, {rank}};
    CopyAsFloat(row, 0, rank, lora_intermediate_.data() + i * static_cast<size_t>(rank));
  }
  const kernels::LoraWeights weights{.rank = outer.embedding_rank,
                                     .scale = outer.embedding_scale,
                                     .a = {},
                                     .b = outer.embedding_b,
                                     .gain = outer.embedding_gain};
  const kernels::LoraSegment lora{
      segment.first_row, segment.num_rows, {&weights, 1}, segment.weight};
  const kernels::LoraTarget target{0, spec_.hidden_size};
  kernels::LoraExpand(context_, lora_intermediate_, {{&lora, 1}, {&target, 1}, layout_.dtype},
                      Residual());
}

kernels::RmsNormWeights CpuBackend::NormsOf(int64_t layer, LayerNorm norm) const {
  const Layer& w = WeightsOf(layer);
  kernels::RmsNormWeights norms{.eps = NormEps(spec_)};
  if (norm == LayerNorm::kMlp) {
    norms.weight = w.mlp_norm.data();
    norms.add_weight = DataOrNull(w.attention_out_norm);
  } else {
    norms.weight = w.attention_norm.data();
    if (layer > 0) norms.add_weight = DataOrNull(WeightsOf(layer - 1).mlp_out_norm);
  }
  return norms;
}

// The output of the previous layer's MLP joins the residual in a layer's first norm; before the
// first layer there is none.
Status CpuBackend::AddNorm(int64_t layer, LayerNorm norm) {
  const bool is_first = norm == LayerNorm::kAttention && layer == 0;
  kernels::AddRmsNorm(context_, Residual(),
                      is_first ? MatrixView<const float>{} : Output(spec_.hidden_size),
                      NormsOf(layer, norm), Activation(input_, rows_, spec_.hidden_size));
  return OkStatus();
}

Status CpuBackend::RopeAppend(int64_t layer) {
  const Layer& w = WeightsOf(layer);
  kernels::RopeAppend(context_, Output(ProjectionGroup::kQkv),
                      {.table = &RopeOf(layer),
                       .num_heads = spec_.num_heads,
                       .gated_queries = spec_.gated_queries,
                       .q_norm = DataOrNull(w.q_norm),
                       .k_norm = DataOrNull(w.k_norm),
                       .norm_eps = static_cast<float>(spec_.rms_norm_eps),
                       .layer = spec_.IndexInKind(layer)},
                      layout_, batch_.sequences, Activation(query_, rows_, spec_.q_size()));
  return OkStatus();
}

Status CpuBackend::Attention(int64_t layer) {
  kernels::Attention(
      context_, Activation(query_, rows_, spec_.q_size()),
      {.num_heads = spec_.num_heads,
       .layer = spec_.IndexInKind(layer),
       .sliding_window = spec_.HasWindow(layer) ? spec_.sliding_window : std::nullopt,
       .scale = ScoreScale(spec_),
       .softcap = ScoreSoftcap(spec_),
       .sinks = DataOrNull(WeightsOf(layer).sinks)},
      layout_, batch_.sequences, Activation(input_, rows_, spec_.q_size()));
  return OkStatus();
}

Status CpuBackend::GateHeads() {
  kernels::GateHeads(context_, Output(ProjectionGroup::kQkv), spec_.head_dim,
                     Activation(input_, rows_, spec_.q_size()));
  return OkStatus();
}

Status CpuBackend::GatedDelta(int64_t layer) {
  const Layer::Delta& delta = WeightsOf(layer).delta;
  kernels::GatedDelta(context_, Output(DeltaColumns(spec_)),
                      {.layer = spec_.IndexInKind(layer),
                       .conv = delta.conv.data(),
                       .decay = delta.decay.data(),
                       .dt_bias = delta.dt_bias.data(),
                       .norm = delta.norm.data(),
                       .norm_eps = static_cast<float>(spec_.rms_norm_eps)},
                      layout_.state, batch_.sequences,
                      Activation(input_, rows_, spec_.linear_attention->value_size()));
  return OkStatus();
}

Status CpuBackend::Glu() {
  kernels::Glu(context_, ActivationOf(spec_), Output(2 * spec_.intermediate_size),
               Activation(input_, rows_, spec_.intermediate_size));
  return OkStatus();
}

Status CpuBackend::Experts(int64_t layer) {
  const Layer& w = WeightsOf(layer);
  const ConstMatrix x = Activation(input_, rows_, spec_.hidden_size);
  const MatrixView<float> logits = Output(spec_.experts->count);
  kernels::Gemm(context_, x, w.router, DataOrNull(w.router_bias), logits);
  const kernels::LoraTarget of_router{0, logits.cols};
  AddAdapters(layer, Site::Router(), {&of_router, 1}, x, logits);
  expert_rows_.Assign(
      context_, logits,
      {.experts_per_row = spec_.experts->per_token, .normalized = spec_.experts->normalized});
  const MatrixView<float> sum = Output(spec_.hidden_size);
  context_.threads().ParallelFor(rows_,
                                 [&](int64_t r) { std::fill_n(sum.row(r), sum.cols, 0.0f); });
  // An expert has no more rows than the step. Of short steps all go together.
  for (int64_t first = 0, last = 0; first < spec_.experts->count; first = last) {
    const int64_t end = expert_rows_.FirstPlace(first) + max_rows_;
    while (last < spec_.experts->count && expert_rows_.FirstPlace(last + 1) <= end) ++last;
    AddExperts(layer, x, first, last);
  }
  return OkStatus();
}

void CpuBackend::AddExperts(int64_t layer, const ConstMatrix& x, int64_t first, int64_t last) {
  const int64_t first_place = expert_rows_.FirstPlace(first);
  const int64_t count = expert_rows_.FirstPlace(last) - first_place;
  const auto output = [&](int64_t cols) {
    return MatrixView<float>{expert_output_.as<float>(), count, cols, cols};
  };
  const auto multiply = [&](const Matrix& in, const Stack& w, const std::vector<float>& bias,
                            MatrixView<float> out) {
    expert_parts_.clear();
    for (int64_t expert = first; expert < last; ++expert) {
      const int64_t place = expert_rows_.FirstPlace(expert);
      const int64_t num_rows = expert_rows_.FirstPlace(expert + 1) - place;
      if (num_rows == 0) continue;
      expert_parts_.push_back({place - first_place, num_rows, &w[static_cast<size_t>(expert)],
                               bias.empty() ? nullptr : bias.data() + expert * out.cols});
    }
    kernels::GemmParts(context_, in, expert_parts_, out);
  };
  const Layer::Experts& weights = WeightsOf(layer).experts;
  FindExpertSegments(layer, first, last);
  // In the place of the queries, which are not needed any more.
  const Matrix own = Activation(query_, count, spec_.hidden_size);
  expert_rows_.Gather(context_, x, first_place, own);
  const int64_t inner = spec_.intermediate_size;
  const MatrixView<float> gate_up = output(2 * inner);
  multiply(own, weights.gate_up, weights.gate_up_bias, gate_up);
  const kernels::LoraTarget of_gate_up[] = {{0, inner}, {inner, inner}};
  AddAdaptersToExperts(layer, Projection::kGate, of_gate_up, own, gate_up);
  const Matrix activated = Activation(query_, count, inner);
  kernels::Glu(context_, ActivationOf(spec_), gate_up, activated);
  const MatrixView<float> down = output(spec_.hidden_size);
  multiply(activated, weights.down, weights.down_bias, down);
  const kernels::LoraTarget of_down{0, down.cols};
  AddAdaptersToExperts(layer, Projection::kDown, {&of_down, 1}, activated, down);
  expert_rows_.AddWeighted(context_, down, first_place, Output(spec_.hidden_size));
}

// The places of a segment's rows lie together, in an expert's.
void CpuBackend::FindExpertSegments(int64_t layer, int64_t first, int64_t last) {
  expert_segments_.clear();
  const int64_t first_place = expert_rows_.FirstPlace(first);
  for (int64_t expert = first; expert < last; ++expert) {
    const std::span<const int32_t> rows = expert_rows_.RowsOf(expert);
    if (rows.empty()) continue;
    const int64_t offset = expert_rows_.FirstPlace(expert) - first_place;
    for (const BatchSegment& segment : batch_.segments) {
      const auto begin = std::ranges::lower_bound(rows, segment.first_row);
      const auto end = std::lower_bound(begin, rows.end(), segment.first_row + segment.num_rows);
      if (begin == end) continue;
      const Site first_site = Site::OfExpert(expert, Projection::kGate);
      if (!Touches(segment.adapter->Sites(layer, first_site, kExpertProjections.size()))) continue;
      expert_segments_.push_back({expert, offset + (begin - rows.begin()), end - begin, &segment});
    }
  }
}

Status CpuBackend::Project(int64_t layer, ProjectionGroup group) {
  const Layer::Group& w = WeightsOf(layer)[group];
  const ConstMatrix x = Activation(input_, rows_, InFeatures(spec_, group));
  const MatrixView<float> y = Output(group);
  kernels::Gemm(context_, x, w.w, DataOrNull(w.bias), y);
  std::vector<kernels::LoraTarget> targets;
  int64_t cols = 0;
  for (const Projection projection : ProjectionsOf(group)) {
    targets.push_back(
        {cols, spec_.OutFeatures(projection), w.bias.empty() ? nullptr : w.bias.data() + cols});
    cols += spec_.OutFeatures(projection);
  }
  AddAdapters(layer, ProjectionsOf(group).front(), targets, x, y);
  return OkStatus();
}

void CpuBackend::AddAdapters(int64_t layer, Site first,
                             std::span<const kernels::LoraTarget> targets, const ConstMatrix& x,
                             MatrixView<float> y) {
  lora_segments_.clear();
  for (const BatchSegment& segment : batch_.segments) {
    const auto weights = segment.adapter->Sites(layer, first, targets.size());
    if (!Touches(weights)) continue;
    lora_segments_.push_back({segment.first_row, segment.num_rows, weights, segment.weight});
  }
  ApplyLora(targets, x, y);
}

void CpuBackend::AddAdaptersToExperts(int64_t layer, Projection first,
                                      std::span<const kernels::LoraTarget> targets,
                                      const ConstMatrix& x, MatrixView<float> y) {
  lora_segments_.clear();
  for (const ExpertSegment& segment : expert_segments_) {
    const auto weights = segment.of_batch->adapter->Sites(
        layer, Site::OfExpert(segment.expert, first), targets.size());
    lora_segments_.push_back({static_cast<int32_t>(segment.first_place),
                              static_cast<int32_t>(segment.num_places), weights,
                              segment.of_batch->weight});
  }
  ApplyLora(targets, x, y);
}

void CpuBackend::ApplyLora(std::span<const kernels::LoraTarget> targets, const ConstMatrix& x,
                           MatrixView<float> y) {
  if (lora_segments_.empty()) return;
  const kernels::LoraCall call{lora_segments_, targets, layout_.dtype};
  lora_intermediate_.resize(static_cast<size_t>(kernels::LoraIntermediateSize(call)));
  kernels::LoraShrink(context_, x, call, lora_intermediate_);
  kernels::LoraExpand(context_, lora_intermediate_, call, y);
}

void CpuBackend::FinalNorm(std::span<const int32_t> rows, const Matrix& out) {
  const auto count = static_cast<int64_t>(rows.size());
  CHECK_LE(count, std::min(rows_, kMaxLogitRows));
  const MatrixView<float> residual{logit_residual_.as<float>(), count, spec_.hidden_size,
                                   spec_.hidden_size};
  const MatrixView<float> output{logit_output_.as<float>(), count, spec_.hidden_size,
                                 spec_.hidden_size};
  for (int64_t i = 0; i < count; ++i) {
    const int32_t row = rows[static_cast<size_t>(i)];
    CHECK(row >= 0 && row < rows_);
    std::copy_n(Residual().row(row), spec_.hidden_size, residual.row(i));
    std::copy_n(Output(spec_.hidden_size).row(row), spec_.hidden_size, output.row(i));
  }
  kernels::AddRmsNorm(context_, residual, output,
                      {.weight = weights_.final_norm.data(),
                       .add_weight = DataOrNull(weights_.layers.back().mlp_out_norm),
                       .eps = NormEps(spec_)},
                      out);
}

StatusOr<MatrixView<const float>> CpuBackend::HiddenStates(std::span<const int32_t> rows) {
  const Matrix states{hidden_states_.data(), DType::kF32, static_cast<int64_t>(rows.size()),
                      spec_.hidden_size, spec_.hidden_size};
  FinalNorm(rows, states);
  return MatrixView<const float>{hidden_states_.as<float>(), states.rows, states.cols,
                                 states.stride};
}

StatusOr<MatrixView<const float>> CpuBackend::Logits(std::span<const int32_t> rows) {
  CHECK(spec_.has_lm_head);
  const auto count = static_cast<int64_t>(rows.size());
  const Matrix normed = Activation(input_, count, spec_.hidden_size);
  FinalNorm(rows, normed);
  const int64_t width = WidestVocab(head_segments_, spec_.vocab_size);
  const MatrixView<float> logits{logits_.as<float>(), count, width, width};
  kernels::Gemm(context_, normed, weights_.lm_head, nullptr, logits.Columns(0, spec_.vocab_size));
  for (int64_t i = 0; i < count && width > spec_.vocab_size; ++i) {
    std::fill_n(logits.row(i) + spec_.vocab_size, width - spec_.vocab_size, 0.0f);
  }
  if (!head_segments_.empty()) AddAdaptersToLogits(rows, normed, logits);
  if (spec_.logit_softcap) {
    kernels::Softcap(context_, static_cast<float>(*spec_.logit_softcap), logits);
  }
  return MatrixView<const float>(logits);
}

void CpuBackend::AddAdaptersToLogits(std::span<const int32_t> rows, const ConstMatrix& x,
                                     MatrixView<float> logits) {
  CHECK(std::ranges::is_sorted(rows));
  std::vector<HeadSegment> adding;
  for (const BatchSegment& segment : head_segments_) {
    const auto begin = std::ranges::lower_bound(rows, segment.first_row);
    const auto end = std::ranges::lower_bound(rows, segment.first_row + segment.num_rows);
    if (begin == end) continue;
    const HeadSegment of_rows = {{static_cast<int32_t>(begin - rows.begin()),
                                  static_cast<int32_t>(end - begin),
                                  {},
                                  segment.weight},
                                 &segment.adapter->outer()};
    if (!of_rows.outer->lm_head_table.runs.empty()) ReplaceLogits(of_rows, x, logits);
    if (!of_rows.outer->lm_head.empty()) adding.push_back(of_rows);
  }
  // Those that share rows have one vocabulary, and stay in their order.
  const auto vocab = [](const HeadSegment& segment) { return segment.outer->vocab; };
  std::ranges::stable_sort(adding, {}, vocab);
  for (size_t first = 0, last = 0; first < adding.size(); first = last) {
    while (last < adding.size() && vocab(adding[last]) == vocab(adding[first])) ++last;
    AddToLogits(std::span(adding).subspan(first, last - first), x, logits);
  }
}

void CpuBackend::ReplaceLogits(const HeadSegment& segment, const ConstMatrix& x,
                               MatrixView<float> logits) {
  // x · Wᵀ is a shrink whose "ranks" are the vocabulary: its V are the logits of these rows.
  const int64_t vocab = segment.outer->vocab;
  const kernels::LoraWeights table{
      .rank = static_cast<int32_t>(vocab), .a = segment.outer->lm_head_table, .b = {}};
  const kernels::LoraTarget whole{0, vocab};
  kernels::LoraSegment lora = segment.lora;
  lora.targets = {&table, 1};
  lora_intermediate_.resize(static_cast<size_t>(lora.num_rows * vocab));
  kernels::LoraShrink(context_, x, {{&lora, 1}, {&whole, 1}, layout_.dtype}, lora_intermediate_);
  for (int64_t i = 0; i < lora.num_rows; ++i) {
    std::copy_n(lora_intermediate_.data() + i * vocab, vocab, logits.row(lora.first_row + i));
  }
}

void CpuBackend::AddToLogits(std::span<const HeadSegment> segments, const ConstMatrix& x,
                             MatrixView<float> logits) {
  const std::vector<OuterWeights::Block>& blocks = segments.front().outer->lm_head;
  lora_segments_.clear();
  std::vector<kernels::LoraWeights> weights(segments.size());  // of a block
  for (size_t i = 0; i < segments.size(); ++i) {
    lora_segments_.push_back(segments[i].lora);
    lora_segments_.back().targets = {&weights[i], 1};
  }
  const auto take_block = [&](size_t block) {
    for (size_t i = 0; i < segments.size(); ++i) {
      weights[i] = segments[i].outer->lm_head[block].weights;
    }
    const kernels::LoraTarget target{blocks[block].first_col, blocks[block].width};
    return target;
  };
  for (size_t block = 0; block < blocks.size(); ++block) {
    const kernels::LoraTarget target = take_block(block);
    const kernels::LoraCall call{lora_segments_, {&target, 1}, layout_.dtype};
    if (block == 0) {  // all have the same A
      lora_intermediate_.resize(static_cast<size_t>(kernels::LoraIntermediateSize(call)));
      kernels::LoraShrink(context_, x, call, lora_intermediate_);
    }
    kernels::LoraExpand(context_, lora_intermediate_, call, logits);
  }
}

}  // namespace aril

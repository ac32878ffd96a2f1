#include "model/model.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/activation/activation.h"
#include "kernels/norm/norm.h"
#include "model/rope_frequencies.h"

namespace aril {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;

// Projections that share their input, in the order in which their weights are packed.
constexpr Projection kQkv[] = {Projection::kQ, Projection::kK, Projection::kV};
constexpr Projection kO[] = {Projection::kO};
constexpr Projection kGateUp[] = {Projection::kGate, Projection::kUp};
constexpr Projection kDown[] = {Projection::kDown};

int64_t QkvSize(const ModelSpec& spec) { return spec.q_size() + 2 * spec.kv_size(); }

int64_t WidestOutput(const ModelSpec& spec) {
  return std::max({QkvSize(spec), 2 * spec.intermediate_size, spec.hidden_size});
}

int64_t WidestInput(const ModelSpec& spec) {
  return std::max({spec.hidden_size, spec.q_size(), spec.intermediate_size});
}

const float* DataOrNull(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

const std::byte* RowOf(const kernels::LoraMatrix& matrix, int64_t row) {
  const auto after = std::ranges::upper_bound(matrix.runs, row, {}, &kernels::MatrixRun::first_row);
  const kernels::MatrixRun& run = *std::prev(after);
  return run.data + (row - run.first_row) * matrix.row_stride_bytes;
}

Buffer Rows(int64_t rows, int64_t cols, size_t element_bytes) {
  return Buffer(static_cast<size_t>(rows * cols) * element_bytes);
}

}  // namespace

Model::Model(const ModelSpec& spec, const kernels::KvLayout& layout, ModelWeights weights,
             int64_t max_rows, int64_t max_positions, kernels::CpuContext& context)
    : spec_(spec),
      layout_(layout),
      weights_(std::move(weights)),
      context_(context),
      rope_(RopeInverseFrequencies(spec.rope, spec.head_dim), max_positions),
      max_rows_(max_rows),
      residual_(Rows(max_rows, spec.hidden_size, sizeof(float))),
      output_(Rows(max_rows, WidestOutput(spec), sizeof(float))),
      input_(Rows(max_rows, WidestInput(spec), SizeOf(layout.dtype))),
      query_(Rows(max_rows, WidestInput(spec), SizeOf(layout.dtype))),
      logit_residual_(Rows(kMaxLogitRows, spec.hidden_size, sizeof(float))),
      logits_(Rows(kMaxLogitRows, spec.vocab_size, sizeof(float))) {}

MatrixView<float> Model::Residual(int64_t rows) const {
  return {residual_.as<float>(), rows, spec_.hidden_size, spec_.hidden_size};
}

MatrixView<float> Model::Output(int64_t rows, int64_t cols) const {
  return {output_.as<float>(), rows, cols, cols};
}

Matrix Model::Activation(const Buffer& buffer, int64_t rows, int64_t cols) const {
  return {buffer.data(), layout_.dtype, rows, cols, cols};
}

void Model::Forward(const ForwardBatch& batch) {
  rows_ = static_cast<int64_t>(batch.tokens.size());
  CHECK_LE(rows_, max_rows_);
  Embed(batch);
  head_segments_.clear();
  for (const BatchSegment& segment : batch.segments) {
    const OuterWeights& outer = segment.adapter->outer();
    if (!outer.lm_head.empty() || !outer.lm_head_table.runs.empty()) {
      head_segments_.push_back(segment);
    }
  }
  for (int64_t layer = 0; layer < spec_.num_layers; ++layer) RunLayer(layer, batch);
}

void Model::Embed(const ForwardBatch& batch) {
  const std::span<const int32_t> tokens = batch.tokens;
  const MatrixView<float> residual = Residual(rows_);
  context_.threads().ParallelFor(rows_, [&](int64_t r) {
    const int64_t token = tokens[static_cast<size_t>(r)];
    CHECK(token >= 0 && token < spec_.vocab_size);
    CopyAsFloat(weights_.embedding, token * spec_.hidden_size, spec_.hidden_size, residual.row(r));
  });
  for (const BatchSegment& segment : batch.segments) EmbedWithAdapter(tokens, segment);
}

void Model::EmbedWithAdapter(std::span<const int32_t> tokens, const BatchSegment& segment) {
  const OuterWeights& outer = segment.adapter->outer();
  const auto first = static_cast<size_t>(segment.first_row);
  const auto count = static_cast<size_t>(segment.num_rows);
  if (!outer.embedding_table.runs.empty()) {
    for (size_t i = 0; i < count; ++i) {
      const TensorView row{
          RowOf(outer.embedding_table, tokens[first + i]), layout_.dtype, {spec_.hidden_size}};
      CopyAsFloat(row, 0, spec_.hidden_size, Residual(rows_).row(static_cast<int64_t>(first + i)));
    }
  }
  if (outer.embedding_rank == 0) return;
  // A token's x is one-hot: its product with Aᵀ is a row of that.
  const int64_t rank = outer.embedding_rank;
  lora_intermediate_.resize(count * static_cast<size_t>(rank));
  for (size_t i = 0; i < count; ++i) {
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
                      Residual(rows_));
}

void Model::RunLayer(int64_t layer, const ForwardBatch& batch) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const auto eps = static_cast<float>(spec_.rms_norm_eps);
  const MatrixView<float> residual = Residual(rows_);
  const MatrixView<float> output = Output(rows_, spec_.hidden_size);
  const Matrix hidden = Activation(input_, rows_, spec_.hidden_size);

  // The output of the previous layer's MLP joins the residual here; before the first layer there is
  // none.
  kernels::AddRmsNorm(context_, residual, layer == 0 ? MatrixView<const float>{} : output,
                      w.input_norm.data(), eps, hidden);
  Project(layer, batch, hidden, w.qkv, w.qkv_bias, kQkv);
  const Matrix q = Activation(query_, rows_, spec_.q_size());
  const Matrix attended = Activation(input_, rows_, spec_.q_size());
  kernels::RopeAppend(context_, Output(rows_, QkvSize(spec_)),
                      {.table = &rope_,
                       .num_heads = spec_.num_heads,
                       .q_norm = DataOrNull(w.q_norm),
                       .k_norm = DataOrNull(w.k_norm),
                       .norm_eps = eps,
                       .layer = layer},
                      layout_, batch.sequences, q);
  kernels::Attention(
      context_, q,
      {.num_heads = spec_.num_heads, .layer = layer, .sliding_window = spec_.sliding_window},
      layout_, batch.sequences, attended);
  Project(layer, batch, attended, w.o, w.o_bias, kO);

  kernels::AddRmsNorm(context_, residual, output, w.post_norm.data(), eps, hidden);
  Project(layer, batch, hidden, w.gate_up, {}, kGateUp);
  const Matrix gated = Activation(input_, rows_, spec_.intermediate_size);
  kernels::SiluMul(context_, Output(rows_, 2 * spec_.intermediate_size), gated);
  Project(layer, batch, gated, w.down, {}, kDown);
}

void Model::Project(int64_t layer, const ForwardBatch& batch, const ConstMatrix& x,
                    const kernels::PackedMatrix& w, const std::vector<float>& bias,
                    std::span<const Projection> projections) {
  kernels::Gemm(context_, x, w, DataOrNull(bias), Output(rows_, w.n));
  AddAdapters(layer, batch, x, bias, projections);
}

void Model::AddAdapters(int64_t layer, const ForwardBatch& batch, const ConstMatrix& x,
                        const std::vector<float>& bias, std::span<const Projection> projections) {
  std::vector<kernels::LoraTarget> targets;
  int64_t cols = 0;
  for (const Projection projection : projections) {
    targets.push_back(
        {cols, spec_.OutFeatures(projection), bias.empty() ? nullptr : bias.data() + cols});
    cols += spec_.OutFeatures(projection);
  }
  lora_segments_.clear();
  for (const BatchSegment& segment : batch.segments) {
    const auto group = segment.adapter->Layer(layer).subspan(static_cast<size_t>(projections[0]),
                                                             projections.size());
    const bool touched = std::any_of(group.begin(), group.end(),
                                     [](const auto& weights) { return weights.rank > 0; });
    if (touched) {
      lora_segments_.push_back({segment.first_row, segment.num_rows, group, segment.weight});
    }
  }
  if (lora_segments_.empty()) return;
  const kernels::LoraCall call{lora_segments_, targets, layout_.dtype};
  lora_intermediate_.resize(static_cast<size_t>(kernels::LoraIntermediateSize(call)));
  kernels::LoraShrink(context_, x, call, lora_intermediate_);
  kernels::LoraExpand(context_, lora_intermediate_, call, Output(rows_, cols));
}

MatrixView<const float> Model::Logits(std::span<const int32_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  CHECK_LE(count, std::min(rows_, kMaxLogitRows));
  const MatrixView<float> gathered{logit_residual_.as<float>(), count, spec_.hidden_size,
                                   spec_.hidden_size};
  const MatrixView<float> output = Output(rows_, spec_.hidden_size);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t row = rows[static_cast<size_t>(i)];
    CHECK(row >= 0 && row < rows_);
    const float* residual = Residual(rows_).row(row);
    for (int64_t c = 0; c < spec_.hidden_size; ++c)
      gathered.row(i)[c] = residual[c] + output.row(row)[c];
  }
  const Matrix normed = Activation(input_, count, spec_.hidden_size);
  kernels::AddRmsNorm(context_, gathered, {}, weights_.final_norm.data(),
                      static_cast<float>(spec_.rms_norm_eps), normed);
  const MatrixView<float> logits{logits_.as<float>(), count, spec_.vocab_size, spec_.vocab_size};
  kernels::Gemm(context_, normed, weights_.lm_head, nullptr, logits);
  if (!head_segments_.empty()) AddAdaptersToLogits(rows, normed, logits);
  return logits;
}

void Model::AddAdaptersToLogits(std::span<const int32_t> rows, const ConstMatrix& x,
                                MatrixView<float> logits) {
  CHECK(std::ranges::is_sorted(rows));
  const kernels::LoraTarget whole{0, spec_.vocab_size};
  std::vector<kernels::LoraWeights> shrinks;  // of the segments below
  std::vector<const OuterWeights*> outers;
  shrinks.reserve(head_segments_.size());
  lora_segments_.clear();
  for (const BatchSegment& segment : head_segments_) {
    const OuterWeights& outer = segment.adapter->outer();
    const auto begin = std::ranges::lower_bound(rows, segment.first_row);
    const auto end = std::ranges::lower_bound(rows, segment.first_row + segment.num_rows);
    if (begin == end) continue;
    kernels::LoraSegment lora{static_cast<int32_t>(begin - rows.begin()),
                              static_cast<int32_t>(end - begin),
                              {},
                              segment.weight};
    if (!outer.lm_head_table.runs.empty()) {
      // x · Wᵀ is a shrink whose "ranks" are the vocabulary: its V are the logits of these rows.
      const kernels::LoraWeights table{
          .rank = static_cast<int32_t>(spec_.vocab_size), .a = outer.lm_head_table, .b = {}};
      lora.targets = {&table, 1};
      kernels::LoraShrink(
          context_, x, {{&lora, 1}, {&whole, 1}, layout_.dtype},
          {logits.row(lora.first_row), static_cast<size_t>(lora.num_rows * spec_.vocab_size)});
    }
    if (outer.lm_head.empty()) continue;
    shrinks.push_back(outer.lm_head[0].weights);
    lora.targets = {&shrinks.back(), 1};
    lora_segments_.push_back(lora);
    outers.push_back(&outer);
  }
  if (lora_segments_.empty()) return;
  const kernels::LoraCall shrink{lora_segments_, {&whole, 1}, layout_.dtype};
  lora_intermediate_.resize(static_cast<size_t>(kernels::LoraIntermediateSize(shrink)));
  kernels::LoraShrink(context_, x, shrink, lora_intermediate_);
  for (size_t block = 0; block < outers[0]->lm_head.size(); ++block) {
    const OuterWeights::Block& columns = outers[0]->lm_head[block];
    const kernels::LoraTarget target{columns.first_col, columns.width};
    for (size_t i = 0; i < outers.size(); ++i) {
      lora_segments_[i].targets = {&outers[i]->lm_head[block].weights, 1};
    }
    kernels::LoraExpand(context_, lora_intermediate_, {lora_segments_, {&target, 1}, layout_.dtype},
                        logits);
  }
}

}  // namespace aril

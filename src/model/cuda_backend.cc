#include "model/cuda_backend.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/strings.h"
#include "kernels/lora/lora_plan.h"
#include "kernels/rope/rope.h"
#include "model/kernel_settings.h"
#include "model/rope_frequencies.h"

namespace aril {
namespace {

using kernels::CudaDevice;
using kernels::CudaGemm;
using kernels::KvRow;
using kernels::SampleRow;

// Attention computes splits in blocks of their own as long as their results fit in this: 32 rows of
// 32 heads and 8,192 tokens need half of it.
constexpr size_t kPartialBytes = size_t{32} << 20;

// Bytes of the buffers that cuda_backend.h describes.
struct Sizes {
  size_t rope, residual, output, input, partials, delta, chosen, head_table, logit_hidden, logits;
  CudaStep::Size rounded;
};

Sizes SizesOf(const ModelSpec& spec, const kernels::KvLayout& layout, int64_t batch_rows,
              int64_t max_positions) {
  const int64_t max_rows = CudaStep::MaxLaunchedRows(batch_rows);
  const auto bytes = [](int64_t rows, int64_t cols, size_t element_bytes) {
    return static_cast<size_t>(rows * cols) * element_bytes;
  };
  constexpr int64_t kLogitRows = Backend::kMaxLogitRows;
  const int64_t max_partials = max_rows *
                               CeilDiv<int64_t>(max_positions, kernels::kAttentionSplit) *
                               (spec.num_heads / spec.num_kv_heads);
  const int64_t num_ropes = spec.other_rope ? 2 : 1;
  return {.rope = bytes(num_ropes * max_positions, spec.head_dim / 2, sizeof(float)),
          .residual = bytes(max_rows, spec.hidden_size, sizeof(float)),
          .output = bytes(max_rows, WidestOutput(spec), sizeof(float)),
          .input = bytes(max_rows, WidestInput(spec), SizeOf(layout.dtype)),
          .partials = std::min(kPartialBytes, bytes(kernels::AttentionPartialFloats(
                                                        kernels::LayerOf(layout, 0), max_partials),
                                                    1, sizeof(float))),
          .delta = bytes(DeltaScratchFloats(layout.state.shape, max_rows), 1, sizeof(float)),
          .chosen = bytes(batch_rows, 1, sizeof(int32_t)),
          .head_table = bytes(kLogitRows, 1, sizeof(int32_t) + sizeof(SampleRow)),
          .logit_hidden = bytes(kLogitRows, spec.hidden_size, sizeof(float)),
          .logits = bytes(kLogitRows, CudaHead::WidestWidth(spec), sizeof(float)),
          .rounded = CudaStep::LargestRounded(spec, layout.pages(), batch_rows, max_positions)};
}

}  // namespace

Status CudaBackend::Supports(const ModelSpec& spec, const kernels::KvLayout& layout) {
  if (spec.head_dim % 2 != 0 || spec.head_dim > kernels::kAttentionMaxHeadDim) {
    return InvalidArgument(StrCat("head_dim is ", spec.head_dim,
                                  "; on a GPU it must be even and at most ",
                                  kernels::kAttentionMaxHeadDim, ": use --device cpu"));
  }
  // Adapters may add to it.
  constexpr int64_t kMaxVocab = kernels::kMaxDeviceVocab - kMaxAddedTokens;
  if (spec.vocab_size > kMaxVocab) {
    return InvalidArgument(StrCat("vocab_size is ", spec.vocab_size,
                                  "; on a GPU it must be at most ", kMaxVocab,
                                  ": use --device cpu"));
  }
  // Of 16 bytes, as the library's products write them.
  const auto is_aligned = [](int64_t cols) { return cols % 4 == 0; };
  if (spec.linear_attention && !(is_aligned(OutFeatures(spec, ProjectionGroup::kDeltaIn)) &&
                                 is_aligned(DeltaColumns(spec)))) {
    return InvalidArgument(
        "the widths of linear attention's heads add up to what is no multiple of 4, as it must be "
        "on a GPU: use --device cpu");
  }
  CHECK(layout.dtype == DType::kF32 || layout.dtype == DType::kBF16 || layout.dtype == DType::kF16);
  return CudaExperts::Supports(spec);
}

StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(CudaDevice& device,
                                                           std::unique_ptr<CudaGemm> gemm,
                                                           const ModelSpec& spec,
                                                           const kernels::KvLayout& layout,
                                                           DeviceWeights weights, int64_t max_rows,
                                                           int64_t max_positions) {
  RETURN_IF_ERROR(Supports(spec, layout));
  std::unique_ptr<CudaBackend> backend(
      new CudaBackend(device, std::move(gemm), spec, layout, std::move(weights), max_rows));
  RETURN_IF_ERROR(backend->AllocateActivations(max_positions));
  RETURN_IF_ERROR(backend->PrepareProducts());
  return backend;
}

CudaBackend::CudaBackend(CudaDevice& device, std::unique_ptr<CudaGemm> gemm, const ModelSpec& spec,
                         const kernels::KvLayout& layout, DeviceWeights weights, int64_t max_rows)
    : device_(device),
      gemm_(std::move(gemm)),
      spec_(spec),
      layout_(layout),
      weights_(std::move(weights)),
      adapters_(device, spec_),
      max_rows_(max_rows),
      experts_(device, spec_, layout.dtype),
      graphs_(device) {}

StatusOr<CudaBackend::Rope> CudaBackend::MakeRope(const RopeSpec& spec, int64_t max_positions) {
  const kernels::RopeTable table = MakeRopeTable(spec, spec_.head_dim, max_positions);
  Rope rope = {.num_pairs = static_cast<int32_t>(table.num_pairs())};
  ASSIGN_OR_RETURN(rope.cos, UploadFloats(device_, table.cos()));
  ASSIGN_OR_RETURN(rope.sin, UploadFloats(device_, table.sin()));
  return rope;
}

Status CudaBackend::AllocateActivations(int64_t max_positions) {
  ASSIGN_OR_RETURN(rope_, MakeRope(spec_.rope, max_positions));
  if (spec_.other_rope) {
    ASSIGN_OR_RETURN(other_rope_, MakeRope(*spec_.other_rope, max_positions));
  }
  const Sizes sizes = SizesOf(spec_, layout_, max_rows_, max_positions);
  RETURN_IF_ERROR(rounded_.Reserve(device_, sizes.rounded));
  RETURN_IF_ERROR(experts_.Reserve(CudaStep::MaxLaunchedRows(max_rows_)));
  RETURN_IF_ERROR(ReserveBuffer(device_, residual_, sizes.residual));
  RETURN_IF_ERROR(ReserveBuffer(device_, output_, sizes.output));
  RETURN_IF_ERROR(ReserveBuffer(device_, input_, sizes.input));
  RETURN_IF_ERROR(ReserveBuffer(device_, query_, sizes.input));
  RETURN_IF_ERROR(ReserveBuffer(device_, partials_, sizes.partials));
  RETURN_IF_ERROR(ReserveBuffer(device_, delta_scratch_, sizes.delta));
  RETURN_IF_ERROR(ReserveBuffer(device_, head_table_, sizes.head_table));
  RETURN_IF_ERROR(ReserveBuffer(device_, logit_residual_, sizes.logit_hidden));
  RETURN_IF_ERROR(ReserveBuffer(device_, logit_output_, sizes.logit_hidden));
  RETURN_IF_ERROR(ReserveBuffer(device_, hidden_states_, sizes.logit_hidden));
  RETURN_IF_ERROR(ReserveBuffer(device_, logits_, sizes.logits));
  RETURN_IF_ERROR(ReserveBuffer(device_, chosen_, sizes.chosen));
  for (HostStep& step : host_steps_) {
    RETURN_IF_ERROR(ReserveBuffer(device_, step.chosen, sizes.chosen));
    ASSIGN_OR_RETURN(step.ended, device_.MakeEvent());
  }
  RETURN_IF_ERROR(ReserveBuffer(device_, host_logits_, sizes.logits));
  return ReserveBuffer(device_, host_hidden_states_, sizes.logit_hidden);
}

int64_t CudaBackend::ActivationBytes(const ModelSpec& spec, const kernels::KvLayout& layout,
                                     int64_t max_rows, int64_t max_positions) {
  const Sizes sizes = SizesOf(spec, layout, max_rows, max_positions);
  return static_cast<int64_t>(
      2 * sizes.rope + sizes.residual + sizes.output + 2 * sizes.input + sizes.partials +
      sizes.delta + sizes.chosen + sizes.head_table + 3 * sizes.logit_hidden + sizes.logits +
      sizes.rounded.table_bytes + static_cast<size_t>(sizes.rounded.v_floats) * sizeof(float) +
      CudaExperts::SizeBytes(spec, layout.dtype, CudaStep::MaxLaunchedRows(max_rows)));
}

kernels::AttentionPlanShape CudaBackend::AttentionShape() const {
  const int64_t partial_floats =
      kernels::AttentionPartialFloats(kernels::LayerOf(layout_, 0), /*max_partials=*/1);
  return {.dtype = layout_.dtype,
          .num_heads = spec_.num_heads,
          .num_kv_heads = spec_.num_kv_heads,
          .head_dim = spec_.head_dim,
          .num_multiprocessors = device_.context().num_multiprocessors,
          .max_partials =
              static_cast<int64_t>(partials_.size_bytes() / sizeof(float)) / partial_floats};
}

Status CudaBackend::Begin(const ForwardBatch& batch) {
  batch_rows_ = static_cast<int32_t>(batch.tokens.size());
  CHECK_LE(batch_rows_, max_rows_);
  CHECK_LT(num_under_way_, kMaxStepsUnderWay);
  ++num_under_way_;
  const auto num_chosen = static_cast<int64_t>(host_step().num_chosen);
  CheckTokens(batch, spec_.vocab_size);
  for (const int32_t token : batch.tokens) CHECK_GE(token, -num_chosen);
  slot_ = (slot_ + 1) % host_steps_.size();
  host_step().num_chosen = 0;
  host_step().num_heads = 0;
  for (const kernels::AttentionSequence& sequence : batch.sequences) {
    CHECK(device_.OwnsAll(sequence.pages) && device_.OwnsAll(sequence.state));
    CHECK_EQ(std::ssize(sequence.state), layout_.state.num_pages());
    if (sequence.repeats) CHECK_EQ(sequence.num_rows, 1);
  }
  ASSIGN_OR_RETURN(const std::vector<CudaAdapters::Table> tables, FindAdapters(batch.segments));
  const CudaStep step(spec_, AttentionShape(), batch, tables);
  FindHeadSegments(batch.segments, tables);
  shape_ = step.shape();
  step_ = step.layout();
  RETURN_IF_ERROR(ReserveForStep(step));
  std::byte* const host_table = memory_->host_tables[slot_].data();
  step.Write(host_table, memory_->table.data());
  for (const CudaStep::Piece& piece : step.pieces()) {
    RETURN_IF_ERROR(device_.CopyToDevice(memory_->table.data() + piece.offset,
                                         host_table + piece.offset, piece.size_bytes));
  }
  return TakeChosen(batch.tokens);
}

Status CudaBackend::TakeChosen(std::span<const int32_t> tokens) {
  if (std::ranges::none_of(tokens, [](int32_t token) { return token < 0; })) return OkStatus();
  return device_.Check(
      device_.kernels().take_chosen(device_.context(), {.tokens = reinterpret_cast<int32_t*>(
                                                            memory_->table.data() + step_.tokens),
                                                        .rows = batch_rows_,
                                                        .chosen = chosen_.as<int32_t>()}),
      "taking tokens");
}

StatusOr<std::vector<CudaAdapters::Table>> CudaBackend::FindAdapters(
    std::span<const BatchSegment> segments) {
  std::vector<const ResidentAdapter*> adapters;
  std::map<const ResidentAdapter*, size_t> index;
  for (const BatchSegment& segment : segments) {
    if (index.emplace(segment.adapter, adapters.size()).second) {
      adapters.push_back(segment.adapter);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<CudaAdapters::Table> tables, adapters_.Find(adapters));
  std::vector<CudaAdapters::Table> of_segments;
  for (const BatchSegment& segment : segments) {
    of_segments.push_back(tables[index.at(segment.adapter)]);
  }
  return of_segments;
}

void CudaBackend::FindHeadSegments(std::span<const BatchSegment> segments,
                                   std::span<const CudaAdapters::Table> tables) {
  head_segments_.clear();
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!segments[i].adapter->outer().changes_lm_head()) continue;
    head_segments_.push_back({segments[i], tables[i]});
  }
}

Status CudaBackend::ReserveForStep(const CudaStep& step) {
  const CudaStep::Size size = step.size();
  memory_ = shape_.is_rounded ? &rounded_ : &others_;
  if (memory_->Fits(size)) return OkStatus();
  CHECK(!shape_.is_rounded);
  return others_.Grow(device_, size);
}

Status CudaBackend::Run(const std::function<Status()>& operators) {
  return shape_.is_rounded ? graphs_.Run(shape_, operators) : operators();
}

Status CudaBackend::Embed() {
  kernels::EmbedArgs args{.tokens = InTable<int32_t>(step_.tokens),
                          .table = weights_.embedding.data.data(),
                          .rows = shape_.rows,
                          .vocab = static_cast<int32_t>(spec_.vocab_size),
                          .size = static_cast<int32_t>(spec_.hidden_size),
                          .scale = EmbeddingScale(spec_, layout_.dtype),
                          .out = residual_.as<float>(),
                          .out_stride = spec_.hidden_size};
  if (shape_.has_own_embeddings) {
    args.own = InTable<const kernels::LoraDeviceMatrix*>(step_.own_embeddings);
  }
  RETURN_IF_ERROR(
      device_.Check(device_.kernels().embed(device_.context(), layout_.dtype, args), "embedding"));
  return shape_.Touches(kEmbeddingPlan) ? AddAdaptersToEmbedding() : OkStatus();
}

Status CudaBackend::AddAdaptersToEmbedding() {
  const auto* const tables = InTable<kernels::LoraTables>(step_.lora[kEmbeddingPlan]);
  RETURN_IF_ERROR(
      device_.Check(device_.kernels().embed_shrink(device_.context(), layout_.dtype,
                                                   {.tables = tables,
                                                    .tokens = InTable<int32_t>(step_.tokens),
                                                    .scale = EmbeddingScale(spec_, layout_.dtype),
                                                    .v = memory_->lora_v.as<float>()}),
                    "LoRA shrink of the embedding"));
  return device_.Check(device_.kernels().lora_expand(device_.context(), layout_.dtype,
                                                     {.tables = tables,
                                                      .max_rank = shape_.max_rank,
                                                      .v = memory_->lora_v.as<float>(),
                                                      .y = residual_.as<float>(),
                                                      .y_stride = spec_.hidden_size}),
                       "LoRA expand of the embedding");
}

kernels::AddRmsNormArgs CudaBackend::NormArgs(const kernels::DeviceBuffer& residual,
                                              const kernels::DeviceBuffer& add, int32_t rows) {
  return {.residual = residual.as<float>(),
          .residual_stride = spec_.hidden_size,
          .add = add.as<float>(),
          .add_stride = spec_.hidden_size,
          .eps = NormEps(spec_),
          .rows = rows,
          .size = static_cast<int32_t>(spec_.hidden_size),
          .out = input_.data(),
          .out_stride = spec_.hidden_size};
}

Status CudaBackend::AddNorm(int64_t layer, LayerNorm norm) {
  const DeviceWeights::Layer& w = WeightsOf(layer);
  kernels::AddRmsNormArgs args = NormArgs(residual_, output_, shape_.rows);
  if (norm == LayerNorm::kMlp) {
    args.weight = w.mlp_norm.as<float>();
    args.add_weight = w.attention_out_norm.as<float>();
  } else {
    args.weight = w.attention_norm.as<float>();
    if (layer == 0) {
      args.add = nullptr;
    } else {
      args.add_weight = WeightsOf(layer - 1).mlp_out_norm.as<float>();
    }
  }
  return device_.Check(device_.kernels().add_rms_norm(device_.context(), layout_.dtype, args),
                       "norm");
}

Status CudaBackend::Experts(int64_t layer) {
  const kernels::LoraExpandTarget all_cols;
  RETURN_IF_ERROR(Multiply(WeightsOf(layer).router, RouterProduct(layer, shape_.rows), layer,
                           kRouterPlan, {&all_cols, 1}));
  CudaExperts::Args args = {.layer = layer,
                            .x = input_.data(),
                            .rows = shape_.rows,
                            .num_rows = InTable<int32_t>(step_.num_rows),
                            .out = output_.as<float>()};
  if (shape_.expert_chunk_rows > 0) {
    args.adapters = {.tables = InTable<kernels::ExpertLoraTables>(step_.expert_lora),
                     .max_rank = shape_.max_rank,
                     .v = memory_->lora_v.as<float>()};
    args.chunk_rows = shape_.expert_chunk_rows;
  }
  return experts_.Run(WeightsOf(layer), args);
}

Status CudaBackend::RopeAppend(int64_t layer) {
  const DeviceWeights::Layer& w = WeightsOf(layer);
  const Rope& rope = spec_.HasOtherRope(layer) ? other_rope_ : rope_;
  return device_.Check(
      device_.kernels().rope_append(device_.context(), layout_.dtype,
                                    {.qkv = output_.as<float>(),
                                     .qkv_stride = OutFeatures(spec_, ProjectionGroup::kQkv),
                                     .sequence_rows = InTable<KvRow>(step_.kv_rows),
                                     .cos = rope.cos.as<float>(),
                                     .sin = rope.sin.as<float>(),
                                     .q_norm = w.q_norm.as<float>(),
                                     .k_norm = w.k_norm.as<float>(),
                                     .norm_eps = static_cast<float>(spec_.rms_norm_eps),
                                     .rows = shape_.rows,
                                     .num_heads = static_cast<int32_t>(spec_.num_heads),
                                     .gated_queries = spec_.gated_queries,
                                     .num_pairs = rope.num_pairs,
                                     .layer = kernels::LayerOf(layout_, spec_.IndexInKind(layer)),
                                     .q = query_.data(),
                                     .q_stride = spec_.q_size()}),
      "RoPE");
}

Status CudaBackend::Attention(int64_t layer) {
  const size_t plan = AttentionPlanOf(spec_, layer);
  const CudaStepShape::Attention& shape = shape_.attention[plan];
  return device_.Check(device_.kernels().attention(
                           device_.context(), layout_.dtype,
                           {.tables = InTable<kernels::AttentionTables>(step_.attention[plan]),
                            .max_items = shape.items,
                            .max_tiles = shape.tiles,
                            .max_partials = static_cast<int32_t>(AttentionShape().max_partials),
                            .has_wide_tiles = shape.has_wide_tiles,
                            .partials = partials_.as<float>(),
                            .q = query_.data(),
                            .q_stride = spec_.q_size(),
                            .layer = kernels::LayerOf(layout_, spec_.IndexInKind(layer)),
                            .num_heads = static_cast<int32_t>(spec_.num_heads),
                            .window = spec_.HasWindow(layer) ? *spec_.sliding_window : INT64_MAX,
                            .scale = ScoreScale(spec_),
                            .softcap = ScoreSoftcap(spec_),
                            .sinks = WeightsOf(layer).sinks.as<float>(),
                            .out = input_.data(),
                            .out_stride = spec_.q_size()}),
                       "attention");
}

Status CudaBackend::GateHeads() {
  return device_.Check(
      device_.kernels().gate_heads(device_.context(), layout_.dtype,
                                   {.gated = output_.as<float>(),
                                    .gated_stride = OutFeatures(spec_, ProjectionGroup::kQkv),
                                    .rows = shape_.rows,
                                    .num_heads = static_cast<int32_t>(spec_.num_heads),
                                    .head_dim = static_cast<int32_t>(spec_.head_dim),
                                    .values = input_.data(),
                                    .values_stride = spec_.q_size()}),
      "the gates of heads");
}

Status CudaBackend::GatedDelta(int64_t layer) {
  const DeviceWeights::Layer::Delta& delta = WeightsOf(layer).delta;
  return device_.Check(device_.kernels().gated_delta(
                           device_.context(), layout_.dtype,
                           {.in = output_.as<float>(),
                            .in_stride = DeltaColumns(spec_),
                            .sequences = InTable<kernels::DeltaSequence>(step_.delta_sequences),
                            .sequence_of_row = InTable<int32_t>(step_.sequence_of_row),
                            .rows = shape_.rows,
                            .num_sequences = shape_.sequences,
                            .layer = kernels::DeltaLayerOf(layout_.state, spec_.IndexInKind(layer)),
                            .conv = delta.conv.as<float>(),
                            .decay = delta.decay.as<float>(),
                            .dt_bias = delta.dt_bias.as<float>(),
                            .norm = delta.norm.as<float>(),
                            .norm_eps = static_cast<float>(spec_.rms_norm_eps),
                            .scratch = delta_scratch_.as<float>(),
                            .out = input_.data(),
                            .out_stride = spec_.linear_attention->value_size()}),
                       "linear attention");
}

Status CudaBackend::Glu() {
  return device_.Check(device_.kernels().glu(device_.context(), layout_.dtype,
                                             {.f = ActivationOf(spec_),
                                              .gate_up = output_.as<float>(),
                                              .gate_up_stride = 2 * spec_.intermediate_size,
                                              .rows = shape_.rows,
                                              .size = static_cast<int32_t>(spec_.intermediate_size),
                                              .out = input_.data(),
                                              .out_stride = spec_.intermediate_size}),
                       "the MLP's activation");
}

Status CudaBackend::End() {
  const HostStep& step = host_step();
  if (step.num_chosen > 0) {
    RETURN_IF_ERROR(
        device_.CopyToHost(step.chosen.data(), chosen_.data(), step.num_chosen * sizeof(int32_t)));
  }
  return step.ended->Record();
}

StatusOr<std::span<const int32_t>> CudaBackend::Wait() {
  CHECK_GT(num_under_way_, 0);
  // The slots are those of the last steps in turns.
  const size_t slots = host_steps_.size();
  const HostStep& step =
      host_steps_[(slot_ + slots + 1 - static_cast<size_t>(num_under_way_)) % slots];
  --num_under_way_;
  RETURN_IF_ERROR(step.ended->Wait());
  return std::span<const int32_t>(step.chosen.as<int32_t>(), step.num_chosen);
}

}  // namespace aril

// CudaBackend: from the last layer's output to hidden states, to logits and to tokens.

#include "base/check.h"
#include "model/cuda_backend.h"

namespace aril {

CudaHead CudaBackend::PlanHead(std::span<const int32_t> rows,
                               std::span<const kernels::SampleRow> how) const {
  return {spec_, device_.context().num_multiprocessors, rows, how, head_segments_};
}

kernels::CudaGemmArgs CudaBackend::LogitProduct(int64_t rows, int64_t width) const {
  return {.dtype = layout_.dtype,
          .rows = rows,
          .max_rows = kMaxLogitRows,
          .n = spec_.vocab_size,
          .k = spec_.hidden_size,
          .x = input_.data(),
          .x_stride = spec_.hidden_size,
          .w = lm_head().data.data(),
          .y = logits_.as<float>(),
          .y_stride = width};
}

Status CudaBackend::FinalNorm(const CudaHead& head, DType dtype, std::byte* out) {
  const auto count = static_cast<int32_t>(head.rows().size());
  CHECK(count <= batch_rows_ && count <= kMaxLogitRows);
  for (const int32_t row : head.rows()) CHECK(row >= 0 && row < batch_rows_);
  RETURN_IF_ERROR(UploadHead(head));
  // Rows of a table of floats, as an embedding's.
  const auto gather = [&](const kernels::DeviceBuffer& from, const kernels::DeviceBuffer& to) {
    return device_.Check(device_.kernels().embed(device_.context(), DType::kF32,
                                                 {.tokens = head_table_.as<int32_t>(),
                                                  .table = from.data(),
                                                  .rows = count,
                                                  .vocab = batch_rows_,
                                                  .size = static_cast<int32_t>(spec_.hidden_size),
                                                  .out = to.as<float>(),
                                                  .out_stride = spec_.hidden_size}),
                         "gathering rows");
  };
  RETURN_IF_ERROR(gather(residual_, logit_residual_));
  RETURN_IF_ERROR(gather(output_, logit_output_));
  kernels::AddRmsNormArgs norm = NormArgs(logit_residual_, logit_output_, count);
  norm.weight = weights_.final_norm.as<float>();
  norm.add_weight = weights_.layers.back().mlp_out_norm.as<float>();
  norm.out = out;
  return device_.Check(device_.kernels().add_rms_norm(device_.context(), dtype, norm),
                       "final norm");
}

Status CudaBackend::ComputeLogits(const CudaHead& head) {
  CHECK(spec_.has_lm_head);
  RETURN_IF_ERROR(FinalNorm(head, layout_.dtype, input_.data()));
  const auto count = static_cast<int32_t>(head.rows().size());
  if (head.width() > spec_.vocab_size) {  // what is added to, behind the base model's
    const size_t size_bytes = static_cast<size_t>(count * head.width()) * sizeof(float);
    RETURN_IF_ERROR(device_.Set(logits_.data(), 0, size_bytes));
  }
  RETURN_IF_ERROR(RunProduct(lm_head(), LogitProduct(count, head.width())));
  RETURN_IF_ERROR(AddAdaptersToLogits(head, count));
  if (!spec_.logit_softcap) return OkStatus();
  return device_.Check(
      device_.kernels().softcap(device_.context(), {.cap = static_cast<float>(*spec_.logit_softcap),
                                                    .values = logits_.as<float>(),
                                                    .stride = head.width(),
                                                    .rows = count,
                                                    .size = static_cast<int32_t>(head.width())}),
      "the cap of logits");
}

Status CudaBackend::UploadHead(const CudaHead& head) {
  if (head.size_bytes() > head_table_.size_bytes()) {
    RETURN_IF_ERROR(ReserveBuffer(device_, head_table_, 2 * head.size_bytes()));
  }
  const auto v_bytes = static_cast<size_t>(head.v_floats()) * sizeof(float);
  if (v_bytes > head_v_.size_bytes()) RETURN_IF_ERROR(ReserveBuffer(device_, head_v_, 2 * v_bytes));
  HostStep& step = host_step();
  if (step.num_heads == step.head_tables.size()) step.head_tables.emplace_back();
  kernels::PinnedBuffer& table = step.head_tables[step.num_heads++];
  RETURN_IF_ERROR(ReserveBuffer(device_, table, head_table_.size_bytes()));
  head.Write(table.data());
  return device_.CopyToDevice(head_table_.data(), table.data(), head.size_bytes());
}

Status CudaBackend::AddAdaptersToLogits(const CudaHead& head, int32_t rows) {
  const auto width = static_cast<int32_t>(head.width());
  const auto hidden = static_cast<int32_t>(spec_.hidden_size);
  if (head.has_own()) {
    const auto* const tables =
        reinterpret_cast<const kernels::PagedGemmTables*>(head_table_.data() + head.own_offset());
    RETURN_IF_ERROR(device_.Check(device_.kernels().paged_gemm(device_.context(), layout_.dtype,
                                                               {.tables = tables,
                                                                .x = input_.data(),
                                                                .x_stride = hidden,
                                                                .rows = rows,
                                                                .n = width,
                                                                .k = hidden,
                                                                .y = logits_.as<float>(),
                                                                .y_stride = width}),
                                  "an adapter's own lm_head"));
  }
  if (!head.has_lora()) return OkStatus();
  const auto* const tables =
      reinterpret_cast<const kernels::LoraTables*>(head_table_.data() + head.lora_offset());
  RETURN_IF_ERROR(device_.Check(device_.kernels().lora_shrink(device_.context(), layout_.dtype,
                                                              {.tables = tables,
                                                               .x = input_.data(),
                                                               .x_stride = hidden,
                                                               .in = hidden,
                                                               .v = head_v_.as<float>()}),
                                "LoRA shrink of lm_head"));
  return device_.Check(device_.kernels().lora_expand(device_.context(), layout_.dtype,
                                                     {.tables = tables,
                                                      .max_rank = head.max_rank(),
                                                      .v = head_v_.as<float>(),
                                                      .y = logits_.as<float>(),
                                                      .y_stride = width}),
                       "LoRA expand of lm_head");
}

StatusOr<MatrixView<const float>> CudaBackend::Logits(std::span<const int32_t> rows) {
  const CudaHead head = PlanHead(rows, {});
  RETURN_IF_ERROR(ComputeLogits(head));
  const size_t size_bytes = rows.size() * static_cast<size_t>(head.width()) * sizeof(float);
  RETURN_IF_ERROR(device_.CopyToHost(host_logits_.data(), logits_.data(), size_bytes));
  RETURN_IF_ERROR(device_.Synchronize());
  return MatrixView<const float>{host_logits_.as<float>(), static_cast<int64_t>(rows.size()),
                                 head.width(), head.width()};
}

StatusOr<MatrixView<const float>> CudaBackend::HiddenStates(std::span<const int32_t> rows) {
  const CudaHead head(spec_, device_.context().num_multiprocessors, rows, {}, {});
  RETURN_IF_ERROR(FinalNorm(head, DType::kF32, hidden_states_.data()));
  const size_t size_bytes = rows.size() * static_cast<size_t>(spec_.hidden_size) * sizeof(float);
  RETURN_IF_ERROR(
      device_.CopyToHost(host_hidden_states_.data(), hidden_states_.data(), size_bytes));
  RETURN_IF_ERROR(device_.Synchronize());
  return MatrixView<const float>{host_hidden_states_.as<float>(), static_cast<int64_t>(rows.size()),
                                 spec_.hidden_size, spec_.hidden_size};
}

Status CudaBackend::Choose(std::span<const int32_t> rows, std::span<const kernels::SampleRow> how) {
  CHECK_EQ(rows.size(), how.size());
  size_t& num_chosen = host_step().num_chosen;
  CHECK_LE(num_chosen + rows.size(), static_cast<size_t>(max_rows_));
  const CudaHead head = PlanHead(rows, how);
  for (const kernels::SampleRow& row : how) CHECK(row.vocab > 0 && row.vocab <= head.width());
  RETURN_IF_ERROR(ComputeLogits(head));
  const auto* const on_device =
      reinterpret_cast<const kernels::SampleRow*>(head_table_.data() + head.how_offset());
  RETURN_IF_ERROR(device_.Check(
      device_.kernels().sample(device_.context(), {.logits = logits_.as<float>(),
                                                   .stride = head.width(),
                                                   .rows = static_cast<int32_t>(rows.size()),
                                                   .how = on_device,
                                                   .tokens = chosen_.as<int32_t>() + num_chosen}),
      "sampling"));
  num_chosen += rows.size();
  return OkStatus();
}

}  // namespace aril

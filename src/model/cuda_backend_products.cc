// The products of a layer, with what adapters add to them.

#include <algorithm>
#include <random>

#include "base/check.h"
#include "model/cuda_backend.h"

namespace aril {
namespace {

void StoreAs(DType dtype, float value, std::byte* to, size_t index) {
  if (dtype == DType::kF32) {
    reinterpret_cast<float*>(to)[index] = value;
  } else if (dtype == DType::kF16) {
    reinterpret_cast<F16*>(to)[index] = ToF16(value);
  } else {
    CHECK(dtype == DType::kBF16);
    reinterpret_cast<BF16*>(to)[index] = ToBF16(value);
  }
}

}  // namespace

Status CudaBackend::PrepareProducts() {
  RETURN_IF_ERROR(FillInput());
  const int64_t rows = CudaStep::MaxLaunchedRows(max_rows_);
  // Those of the library: what is quantized has a kernel of its own.
  const auto prepare = [&](const auto& has, const auto& matrix_of, const auto& product_of) {
    std::vector<kernels::CudaGemmArgs> calls;
    for (int64_t layer = 0; layer < spec_.num_layers; ++layer) {
      if (!has(layer)) continue;
      if (!matrix_of(WeightsOf(layer)).quantized) calls.push_back(product_of(layer));
    }
    return calls.empty() ? OkStatus() : gemm_->Prepare(calls);
  };
  for (const ProjectionGroup group : ProjectionGroupsOf(spec_)) {
    const auto matrix_of = [&](const DeviceWeights::Layer& layer) -> const DeviceMatrix& {
      return layer.groups[static_cast<size_t>(group)].w;
    };
    const auto has = [&](int64_t layer) { return spec_.Has(layer, ProjectionsOf(group).front()); };
    const auto product_of = [&](int64_t layer) {
      kernels::CudaGemmArgs product = ProductOf(layer, group, rows);
      product.y = output_.as<float>();
      product.y_stride = product.n;
      return product;
    };
    RETURN_IF_ERROR(prepare(has, matrix_of, product_of));
    RETURN_IF_ERROR(TryPlaceOf(group, rows));
  }
  if (spec_.experts) {
    const auto router_of = [](const DeviceWeights::Layer& layer) -> const DeviceMatrix& {
      return layer.router;
    };
    RETURN_IF_ERROR(prepare([](int64_t) { return true; }, router_of,
                            [&](int64_t layer) { return RouterProduct(layer, rows); }));
  }
  if (!spec_.has_lm_head || lm_head().quantized) return OkStatus();
  const kernels::CudaGemmArgs logits =
      LogitProduct(std::min(rows, kMaxLogitRows), spec_.vocab_size);
  RETURN_IF_ERROR(gemm_->Prepare({&logits, 1}));
  // Whatever was chosen also writes rows that lie farther apart: better known now.
  for (int64_t count = 1; count <= logits.rows; count *= 2) {
    RETURN_IF_ERROR(gemm_->Run(LogitProduct(count, CudaHead::WidestWidth(spec_))));
  }
  return OkStatus();
}

// What was chosen for rows that follow one another also writes those that lie farther apart, of
// linear attention: better known now.
Status CudaBackend::TryPlaceOf(ProjectionGroup group, int64_t rows) {
  if (OutputPlaceOf(spec_, group).stride == OutFeatures(spec_, group)) return OkStatus();
  for (int64_t layer = 0; layer < spec_.num_layers; ++layer) {
    if (!spec_.Has(layer, ProjectionsOf(group).front())) continue;
    const DeviceMatrix& w = WeightsOf(layer).groups[static_cast<size_t>(group)].w;
    if (w.quantized) continue;
    for (int64_t count = 1; count < 2 * rows; count *= 2) {
      RETURN_IF_ERROR(RunProduct(w, ProductOf(layer, group, std::min(count, rows))));
    }
    break;
  }
  return OkStatus();
}

// With numbers of the size that a norm gives; rows repeat after a megabyte of them.
Status CudaBackend::FillInput() {
  constexpr size_t kDrawnBytes = size_t{1} << 20;
  constexpr uint64_t kSeed = 1;
  const size_t drawn = std::min(kDrawnBytes, input_.size_bytes());
  std::vector<std::byte> values(drawn);
  std::mt19937_64 random(kSeed);
  for (size_t i = 0; i < drawn / SizeOf(layout_.dtype); ++i) {
    // 32 bits of the generator's 64: between -2 and 2.
    const float value = static_cast<float>(static_cast<int32_t>(random() >> 32)) * 0x1p-30f;
    StoreAs(layout_.dtype, value, values.data(), i);
  }
  RETURN_IF_ERROR(device_.CopyToDevice(input_.data(), values.data(), drawn));
  for (size_t filled = drawn; filled < input_.size_bytes();) {
    const size_t more = std::min(filled, input_.size_bytes() - filled);
    RETURN_IF_ERROR(device_.CopyWithin(input_.data() + filled, input_.data(), more));
    filled += more;
  }
  return device_.Synchronize();
}

kernels::CudaGemmArgs CudaBackend::ProductOf(int64_t layer, ProjectionGroup group,
                                             int64_t rows) const {
  const DeviceWeights::Layer::Group& w = WeightsOf(layer).groups[static_cast<size_t>(group)];
  const OutputPlace place = OutputPlaceOf(spec_, group);
  return {.dtype = layout_.dtype,
          .rows = rows,
          .max_rows = std::max(kernels::kUsualGemmRows, CudaStep::MaxLaunchedRows(max_rows_)),
          .n = w.w.n,
          .k = w.w.k,
          .x = input_.data(),
          .x_stride = w.w.k,
          .w = w.w.data.data(),
          .bias = w.bias.as<float>(),
          .y = output_.as<float>() + place.first_col,
          .y_stride = place.stride};
}

kernels::CudaGemmArgs CudaBackend::RouterProduct(int64_t layer, int64_t rows) const {
  const DeviceWeights::Layer& layer_weights = WeightsOf(layer);
  const DeviceMatrix& w = layer_weights.router;
  return {.dtype = layout_.dtype,
          .rows = rows,
          .max_rows = std::max(kernels::kUsualGemmRows, CudaStep::MaxLaunchedRows(max_rows_)),
          .n = w.n,
          .k = w.k,
          .x = input_.data(),
          .x_stride = w.k,
          .w = w.data.data(),
          .bias = layer_weights.router_bias.as<float>(),
          .y = experts_.logits(),
          .y_stride = w.n};
}

Status CudaBackend::RunProduct(const DeviceMatrix& w, const kernels::CudaGemmArgs& product) {
  if (!w.quantized) return gemm_->Run(product);
  kernels::QuantizedGemmArgs args = w.quantized_args();
  args.rows = static_cast<int32_t>(product.rows);
  args.x = product.x;
  args.x_stride = product.x_stride;
  args.bias = product.bias;
  args.y = product.y;
  args.y_stride = product.y_stride;
  return device_.Check(device_.kernels().quantized_gemm(device_.context(), product.dtype, args),
                       "a product with quantized weights");
}

// The shrink, which needs what the product needs, comes before it: the first weights of adapters
// are under way while the kernel before runs, and the library's kernels let none begin early.
Status CudaBackend::Multiply(const DeviceMatrix& w, const kernels::CudaGemmArgs& product,
                             int64_t layer, size_t plan,
                             std::span<const kernels::LoraExpandTarget> targets) {
  if (!shape_.Touches(plan)) return RunProduct(w, product);
  const auto* const tables = InTable<kernels::LoraTables>(step_.lora[plan]);
  const auto weights_offset =
      static_cast<int32_t>(layer * static_cast<int64_t>(CudaAdapters::SitesOf(spec_)));
  RETURN_IF_ERROR(
      device_.Check(device_.kernels().lora_shrink(device_.context(), layout_.dtype,
                                                  {.tables = tables,
                                                   .weights_offset = weights_offset,
                                                   .x = product.x,
                                                   .x_stride = product.x_stride,
                                                   .in = static_cast<int32_t>(product.k),
                                                   .v = memory_->lora_v.as<float>()}),
                    "LoRA shrink"));
  RETURN_IF_ERROR(RunProduct(w, product));
  kernels::LoraExpandArgs expand{.tables = tables,
                                 .weights_offset = weights_offset,
                                 .max_rank = shape_.max_rank,
                                 .v = memory_->lora_v.as<float>(),
                                 .y = product.y,
                                 .y_stride = product.y_stride};
  std::ranges::copy(targets, expand.targets);
  return device_.Check(device_.kernels().lora_expand(device_.context(), layout_.dtype, expand),
                       "LoRA expand");
}

Status CudaBackend::Project(int64_t layer, ProjectionGroup group) {
  const kernels::CudaGemmArgs product = ProductOf(layer, group, shape_.rows);
  std::vector<kernels::LoraExpandTarget> targets;
  int64_t first_col = 0;
  for (const Projection projection : ProjectionsOf(group)) {
    targets.push_back({first_col, product.bias == nullptr ? nullptr : product.bias + first_col});
    first_col += spec_.OutFeatures(projection);
  }
  return Multiply(WeightsOf(layer).groups[static_cast<size_t>(group)].w, product, layer,
                  static_cast<size_t>(group), targets);
}

}  // namespace aril

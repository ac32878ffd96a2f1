#include "model/cuda_experts.h"

#include <algorithm>

#include "base/strings.h"
#include "kernels/experts/experts_cuda.h"
#include "kernels/gemm/grouped_gemm_cuda.h"
#include "kernels/lora/expert_lora_plan.h"
#include "model/cuda_step_memory.h"
#include "model/kernel_settings.h"

namespace aril {
namespace {

static_assert(kernels::kMaxDeviceExperts <= kernels::kGroupedGemmMaxGroups);
static_assert(kernels::kMaxDeviceExperts <= kernels::kQuantizedGemmMaxGroups);

// Fewer rows go at a time where V would have more floats: of Qwen3-30B-A3B 512 where one row has
// eight adapters, and one adapter rank 512.
constexpr int64_t kMaxVFloats = int64_t{32} << 20;

// Of V, of a row in a step of so many.
int64_t VFloatsOfRow(const ModelSpec& spec, int32_t rows, int32_t max_entries, int32_t max_rank) {
  const auto floats = [&](int64_t in, int32_t num_targets) {
    return kernels::ExpertLoraVFloats(spec.experts->per_token, max_entries, num_targets,
                                      kernels::ExpertLoraPartials(in, rows), max_rank);
  };
  return std::max(floats(spec.hidden_size, 2), floats(spec.intermediate_size, 1));
}

}  // namespace

Status CudaExperts::Supports(const ModelSpec& spec) {
  if (!spec.experts) return OkStatus();
  if (spec.experts->count > kernels::kMaxDeviceExperts) {
    return InvalidArgument(StrCat("a layer has ", spec.experts->count,
                                  " experts; on a GPU there must be at most ",
                                  kernels::kMaxDeviceExperts, ": use --device cpu"));
  }
  if (spec.experts->per_token > kernels::kMaxDeviceExpertsPerRow) {
    return InvalidArgument(StrCat("num_experts_per_tok is ", spec.experts->per_token,
                                  "; on a GPU it must be at most ",
                                  kernels::kMaxDeviceExpertsPerRow, ": use --device cpu"));
  }
  return OkStatus();
}

// Bytes of the buffers that cuda_experts.h describes.
struct CudaExperts::Sizes {
  size_t logits = 0, chosen = 0, first_places = 0, places = 0, lora_tiles = 0, output = 0,
         activated = 0;
};

CudaExperts::Sizes CudaExperts::SizesOf(const ModelSpec& spec, DType dtype, int64_t max_rows) {
  if (!spec.experts) return {};
  const auto bytes = [](int64_t rows, int64_t cols, size_t element_bytes) {
    return static_cast<size_t>(rows * cols) * element_bytes;
  };
  const int64_t count = spec.experts->count, per_token = spec.experts->per_token;
  const int64_t places = std::min(max_rows, int64_t{kMaxChunkRows}) * per_token;
  const int64_t widest = std::max(2 * spec.intermediate_size, spec.hidden_size);
  return {.logits = bytes(max_rows, count, sizeof(float)),
          .chosen = bytes(max_rows, per_token, sizeof(int32_t)),
          .first_places = bytes(count + 1, 1, sizeof(int32_t)),
          .places = bytes(places, 1, sizeof(int32_t)),
          .lora_tiles = bytes(places, 1, sizeof(kernels::ExpertLoraTile)),
          .output = bytes(places, widest, sizeof(float)),
          .activated = bytes(places, spec.intermediate_size, SizeOf(dtype))};
}

size_t CudaExperts::SizeBytes(const ModelSpec& spec, DType dtype, int64_t max_rows) {
  const Sizes sizes = SizesOf(spec, dtype, max_rows);
  return sizes.logits + 2 * sizes.chosen + 2 * sizes.first_places + 2 * sizes.places +
         sizes.lora_tiles + sizes.output + sizes.activated;
}

Status CudaExperts::Reserve(int64_t max_rows) {
  const Sizes sizes = SizesOf(spec_, dtype_, max_rows);
  RETURN_IF_ERROR(ReserveBuffer(device_, logits_, sizes.logits));
  RETURN_IF_ERROR(ReserveBuffer(device_, chosen_, sizes.chosen));
  RETURN_IF_ERROR(ReserveBuffer(device_, row_weights_, sizes.chosen));
  RETURN_IF_ERROR(ReserveBuffer(device_, first_places_, sizes.first_places));
  RETURN_IF_ERROR(ReserveBuffer(device_, place_rows_, sizes.places));
  RETURN_IF_ERROR(ReserveBuffer(device_, places_, sizes.places));
  RETURN_IF_ERROR(ReserveBuffer(device_, lora_tiles_, sizes.lora_tiles));
  RETURN_IF_ERROR(ReserveBuffer(device_, lora_counts_, sizes.first_places));
  RETURN_IF_ERROR(ReserveBuffer(device_, output_, sizes.output));
  return ReserveBuffer(device_, activated_, sizes.activated);
}

int32_t CudaExperts::ChunkRows(const ModelSpec& spec, int32_t rows, int32_t max_entries,
                               int32_t max_rank) {
  const int64_t floats_each = VFloatsOfRow(spec, rows, max_entries, max_rank);
  return static_cast<int32_t>(
      std::clamp(kMaxVFloats / floats_each, int64_t{1}, int64_t{std::min(rows, kMaxChunkRows)}));
}

int64_t CudaExperts::VFloats(const ModelSpec& spec, int32_t rows, int32_t max_entries,
                             int32_t max_rank) {
  return ChunkRows(spec, rows, max_entries, max_rank) *
         VFloatsOfRow(spec, rows, max_entries, max_rank);
}

Status CudaExperts::Run(const DeviceWeights::Layer& weights, const Args& args) {
  RETURN_IF_ERROR(device_.Check(
      device_.kernels().choose_experts(device_.context(),
                                       {.logits = logits(),
                                        .num_rows = args.num_rows,
                                        .rows = args.rows,
                                        .experts = static_cast<int32_t>(spec_.experts->count),
                                        .per_row = static_cast<int32_t>(spec_.experts->per_token),
                                        .normalized = spec_.experts->normalized,
                                        .chosen = chosen_.as<int32_t>(),
                                        .weights = row_weights_.as<float>()}),
      "the choice of experts"));
  for (int32_t first = 0; first < args.rows; first += args.chunk_rows) {
    RETURN_IF_ERROR(RunChunk(weights, args, {first, std::min(args.rows - first, args.chunk_rows)}));
  }
  return OkStatus();
}

Status CudaExperts::RunChunk(const DeviceWeights::Layer& weights, const Args& args,
                             const Chunk& chunk) {
  const auto hidden = static_cast<int32_t>(spec_.hidden_size);
  const auto per_row = static_cast<int32_t>(spec_.experts->per_token);
  const int64_t first_chosen = int64_t{chunk.first} * per_row;
  RETURN_IF_ERROR(
      device_.Check(device_.kernels().place_rows(
                        device_.context(), {.chosen = chosen_.as<int32_t>() + first_chosen,
                                            .rows = chunk.rows,
                                            .per_row = per_row,
                                            .experts = static_cast<int32_t>(spec_.experts->count),
                                            .first_places = first_places_.as<int32_t>(),
                                            .place_rows = place_rows_.as<int32_t>(),
                                            .places = places_.as<int32_t>()}),
                    "the places of rows"));
  if (args.adapters.tables != nullptr) RETURN_IF_ERROR(FindTiles(args, chunk));
  const std::byte* const x =
      args.x + static_cast<size_t>(int64_t{chunk.first} * hidden) * SizeOf(dtype_);
  RETURN_IF_ERROR(Multiply(args, chunk,
                           {weights.expert_gate_up, weights.expert_gate_up_bias.as<float>(),
                            Projection::kGate, 2, x, true}));
  RETURN_IF_ERROR(
      device_.Check(device_.kernels().glu(device_.context(), dtype_,
                                          {.f = ActivationOf(spec_),
                                           .gate_up = output_.as<float>(),
                                           .gate_up_stride = 2 * spec_.intermediate_size,
                                           .rows = chunk.rows * per_row,
                                           .size = static_cast<int32_t>(spec_.intermediate_size),
                                           .out = activated_.data(),
                                           .out_stride = spec_.intermediate_size}),
                    "the experts' activation"));
  RETURN_IF_ERROR(Multiply(args, chunk,
                           {weights.expert_down, weights.expert_down_bias.as<float>(),
                            Projection::kDown, 1, activated_.data(), false}));
  return device_.Check(device_.kernels().add_experts(
                           device_.context(), {.y = output_.as<float>(),
                                               .places = places_.as<int32_t>(),
                                               .weights = row_weights_.as<float>() + first_chosen,
                                               .rows = chunk.rows,
                                               .per_row = per_row,
                                               .size = hidden,
                                               .out = args.out + int64_t{chunk.first} * hidden}),
                       "the sum of experts");
}

kernels::ExpertPlaces CudaExperts::PlacesOf(const Chunk& chunk) const {
  return {.first_places = first_places_.as<int32_t>(),
          .place_rows = place_rows_.as<int32_t>(),
          .first_row = chunk.first,
          .experts = static_cast<int32_t>(spec_.experts->count)};
}

Status CudaExperts::FindTiles(const Args& args, const Chunk& chunk) {
  return device_.Check(device_.kernels().expert_lora_tiles(
                           device_.context(), {.tables = args.adapters.tables,
                                               .places = PlacesOf(chunk),
                                               .tiles = lora_tiles_.as<kernels::ExpertLoraTile>(),
                                               .counts = lora_counts_.as<int32_t>()}),
                       "the adapters of experts");
}

Status CudaExperts::RunProduct(const Chunk& chunk, const Product& product) {
  const int64_t in = product.w.k, out = product.w.n / spec_.experts->count;
  const int32_t* const x_rows = product.x_of_rows ? place_rows_.as<int32_t>() : nullptr;
  if (product.w.quantized) {
    kernels::QuantizedGemmArgs args = product.w.quantized_args();
    args.rows = chunk.rows;
    args.first_rows = first_places_.as<int32_t>();
    args.x_rows = x_rows;
    args.x = product.x;
    args.x_stride = in;
    args.bias = product.bias;
    args.y = output_.as<float>();
    args.y_stride = out;
    return device_.Check(device_.kernels().quantized_gemm(device_.context(), dtype_, args),
                         "the experts' products with quantized weights");
  }
  return device_.Check(
      device_.kernels().grouped_gemm(device_.context(), dtype_,
                                     {.first_rows = first_places_.as<int32_t>(),
                                      .x_rows = x_rows,
                                      .x = product.x,
                                      .x_stride = in,
                                      .w = product.w.data.data(),
                                      .bias = product.bias,
                                      .groups = static_cast<int32_t>(spec_.experts->count),
                                      .n = static_cast<int32_t>(out),
                                      .k = static_cast<int32_t>(in),
                                      .y = output_.as<float>(),
                                      .y_stride = out}),
      "the experts' products");
}

// The shrink comes before the product, as in CudaBackend.
Status CudaExperts::Multiply(const Args& args, const Chunk& chunk, const Product& product) {
  const int64_t in = product.w.k, out = product.w.n / spec_.experts->count;
  const bool has_adapters = args.adapters.tables != nullptr;
  const kernels::ExpertLoraCall call = {
      .tables = args.adapters.tables,
      .places = PlacesOf(chunk),
      .tiles = lora_tiles_.as<kernels::ExpertLoraTile>(),
      .counts = lora_counts_.as<int32_t>(),
      .layer = static_cast<int32_t>(args.layer),
      .first_site = static_cast<int32_t>(product.first) - static_cast<int32_t>(Projection::kGate),
      .num_targets = product.num_targets,
      .partials = kernels::ExpertLoraPartials(in, args.rows)};
  if (has_adapters) {
    RETURN_IF_ERROR(
        device_.Check(device_.kernels().expert_lora_shrink(device_.context(), dtype_,
                                                           {.call = call,
                                                            .x = product.x,
                                                            .x_stride = in,
                                                            .x_of_rows = product.x_of_rows,
                                                            .in = static_cast<int32_t>(in),
                                                            .v = args.adapters.v}),
                      "LoRA shrink of experts"));
  }
  RETURN_IF_ERROR(RunProduct(chunk, product));
  if (!has_adapters) return OkStatus();
  return device_.Check(
      device_.kernels().expert_lora_expand(device_.context(), dtype_,
                                           {.call = call,
                                            .max_rank = args.adapters.max_rank,
                                            .out = static_cast<int32_t>(out) / product.num_targets,
                                            .v = args.adapters.v,
                                            .y = output_.as<float>(),
                                            .y_stride = out}),
      "LoRA expand of experts");
}

}  // namespace aril

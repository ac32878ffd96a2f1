#include "apps/bench_kernel_work.h"

#include <map>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr int64_t kElement = 2;  // bytes of a BF16
constexpr int64_t kFloat8Block = 128;

// Segments of `each` rows, the last of what is left.
std::vector<int64_t> EqualShares(int64_t rows, int64_t each) {
  std::vector<int64_t> shares(static_cast<size_t>(rows / each), each);
  if (rows % each > 0) shares.push_back(rows % each);
  return shares;
}

}  // namespace

std::vector<MatrixSize> LayerProducts(const ModelSpec& spec) {
  std::vector<MatrixSize> products = {
      {"qkv", spec.hidden_size, spec.OutFeatures(Projection::kQ) + 2 * spec.kv_size()},
      {"o", spec.q_size(), spec.hidden_size}};
  if (spec.linear_attention) {
    const LinearAttentionSpec& linear = *spec.linear_attention;
    products.push_back({"delta in", spec.hidden_size, linear.num_channels() + linear.value_size()});
    products.push_back({"delta out", linear.value_size(), spec.hidden_size});
  }
  for (MatrixSize& size : MlpProducts(spec)) products.push_back(std::move(size));
  return products;
}

std::vector<MatrixSize> MlpProducts(const ModelSpec& spec) {
  const std::string of_expert = spec.experts ? "expert's " : "";
  return {{of_expert + "gate_up", spec.hidden_size, 2 * spec.intermediate_size},
          {of_expert + "down", spec.intermediate_size, spec.hidden_size}};
}

const std::vector<std::string>& BenchLoraProjections() {
  static const std::vector<std::string> names = {"q", "o", "gate", "down"};
  return names;
}

bool IsAdapted(const ModelSpec& spec, const std::string& name) {
  return !spec.experts || name == "q" || name == "o";
}

MatrixSize AdaptedProjection(const ModelSpec& spec, const std::string& name) {
  const std::map<std::string, std::pair<int64_t, int64_t>> sizes = {
      {"q", {spec.hidden_size, spec.OutFeatures(Projection::kQ)}},
      {"o", {spec.q_size(), spec.hidden_size}},
      {"gate", {spec.hidden_size, spec.intermediate_size}},
      {"down", {spec.intermediate_size, spec.hidden_size}}};
  const auto& [in, out] = sizes.at(name);
  return {name, in, out};
}

KernelWork GemmWork(const MatrixSize& size, kernels::WeightFormat format, int64_t rows) {
  const double elements = static_cast<double>(size.in) * static_cast<double>(size.out);
  return {.kernel = kernels::IsQuantized(format) ? StrCat("gemm ", format) : "gemm",
          .operands = StrCat(size.name, " ", size.in, " to ", size.out),
          .rows = rows,
          .format = format,
          .bytes = elements * kernels::BytesPerWeight(format),
          .operations = 2 * static_cast<double>(rows) * elements};
}

std::vector<LoraBatchShape> LoraBatches(const LoraCasesOptions& options) {
  std::vector<LoraBatchShape> batches;
  for (const int64_t rows : options.rows) {
    for (const PopularityKind kind : options.popularities) {
      batches.push_back(
          {Name(Popularity{.kind = kind}), rows, AdapterShares({.kind = kind}, rows)});
    }
    for (const int64_t each : options.segment_rows) {
      batches.push_back({StrCat(each, " rows each"), rows, EqualShares(rows, each)});
    }
  }
  return batches;
}

KernelWork LoraWork(const MatrixSize& size, const std::vector<int64_t>& ranks,
                    const LoraBatchShape& batch) {
  const double mean_rank =
      static_cast<double>(std::accumulate(ranks.begin(), ranks.end(), int64_t{0})) /
      static_cast<double>(ranks.size());
  const double elements = mean_rank * static_cast<double>(size.in + size.out);
  return {
      .kernel = "lora",
      .operands = StrCat(size.in, " to ", size.out, " rank ", Join(ranks, "/"), " ", batch.name),
      .rows = batch.rows,
      .bytes = static_cast<double>(batch.shares.size()) * elements * kElement,
      .operations = 2 * static_cast<double>(batch.rows) * elements};
}

std::vector<AttentionBatchShape> AttentionBatches(const std::vector<int64_t>& contexts,
                                                  int64_t sequences, int64_t prefill_tokens) {
  std::vector<AttentionBatchShape> batches;
  for (const int64_t tokens : contexts) {
    batches.push_back({StrCat("decode at ", tokens, " tokens"), sequences, 1, tokens});
  }
  if (prefill_tokens > 0) batches.push_back({"prefill", 1, prefill_tokens, prefill_tokens});
  return batches;
}

KernelWork AttentionWork(const ModelSpec& spec, const AttentionBatchShape& batch) {
  const auto sequences = static_cast<double>(batch.sequences);
  const auto rows = static_cast<double>(batch.rows_each);
  // Row i of the last `rows_each` sees as many tokens less than the last.
  const double seen = rows * static_cast<double>(batch.context) - rows * (rows - 1) / 2;
  return {
      .kernel = "attention",
      .operands = batch.name,
      .rows = batch.sequences * batch.rows_each,
      .bytes = static_cast<double>(batch.sequences * batch.context * 2 * spec.kv_size() * kElement),
      .operations = 4 * sequences * seen * static_cast<double>(spec.q_size())};
}

KernelWork DeltaWork(const LinearAttentionSpec& linear, const AttentionBatchShape& batch) {
  const auto matrices = static_cast<double>(linear.value_size() * linear.key_dim);
  const auto rows = static_cast<double>(batch.sequences * batch.rows_each);
  return {.kernel = "gated delta",
          .operands = batch.name,
          .rows = batch.sequences * batch.rows_each,
          .format = kernels::WeightFormat::kF32,
          .bytes = 2 * sizeof(float) * matrices * static_cast<double>(batch.sequences),
          .operations = 6 * matrices * rows};
}

Buffer SmallValues(int64_t size_bytes) {
  Buffer buffer(static_cast<size_t>(size_bytes));
  auto* values = buffer.as<uint16_t>();
  uint32_t state = 1;
  for (int64_t i = 0; i < size_bytes / kElement; ++i) {
    state = state * 1664525 + 1013904223;
    values[i] = static_cast<uint16_t>(0x3C00 | (state >> 16 & 0x80FF));
  }
  return buffer;
}

SmallWeights::SmallWeights(int64_t out, int64_t in, kernels::WeightFormat format)
    : out_(out), in_(in), format_(format) {
  if (kernels::IsCodebook4(format)) {
    values_ = SmallValues(CeilDiv(out * in, int64_t{2}));
    scales_ = SmallValues(CeilDiv(out * in, kernels::Codebook4GroupSize(format)) *
                          int64_t{sizeof(float)});
    return;
  }
  if (format != kernels::WeightFormat::kFloat8) {
    values_ = SmallValues(out * in * kElement);
    return;
  }
  values_ = SmallValues(RoundUp(out * in, kElement));
  auto* const levels = values_.as<uint8_t>();
  for (size_t i = 0; i < values_.size_bytes(); ++i) levels[i] &= 0xBF;  // at most 1.875: no NaN
  scales_ = SmallValues(CeilDiv(out, kFloat8Block) * CeilDiv(in, kFloat8Block) * kElement);
}

WeightView SmallWeights::view() const {
  if (kernels::IsCodebook4(format_)) {
    const int64_t block_size = kernels::Codebook4GroupSize(format_);
    Codebook4View view{.codes = {values_.data(), DType::kU8, {CeilDiv(out_ * in_, int64_t{2})}},
                       .scales = {scales_.data(), DType::kF32, {out_ * in_ / block_size}},
                       .block_size = block_size,
                       .rows = out_,
                       .cols = in_};
    std::iota(view.codebook.begin(), view.codebook.end(), -8.0f);
    return view;
  }
  if (format_ != kernels::WeightFormat::kFloat8) {
    return TensorView{values_.data(), DType::kBF16, {out_, in_}};
  }
  const Shape blocks = {CeilDiv(out_, kFloat8Block), CeilDiv(in_, kFloat8Block)};
  return Float8View{.levels = {values_.data(), DType::kF8E4M3, {out_, in_}},
                    .scales = {scales_.data(), DType::kBF16, blocks},
                    .block_rows = kFloat8Block,
                    .block_cols = kFloat8Block};
}

}  // namespace aril

// Attention over pages of the pool.

#include "apps/bench_cuda_cases.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "apps/bench_cuda_operands.h"
#include "base/checked.h"
#include "base/strings.h"
#include "kernels/activation/activation.h"
#include "kernels/attention/attention_plan.h"
#include "model/kernel_settings.h"

namespace aril {
namespace {

using bench_cuda::Compare;
using bench_cuda::Download;
using bench_cuda::kBf16Error;
using bench_cuda::kElement;
using bench_cuda::kLastCall;
using bench_cuda::ToDouble;
using bench_cuda::Upload;
using kernels::CudaDevice;
using kernels::DeviceBuffer;

constexpr int64_t kPageTokens = 16;
// As a model's backend has.
constexpr int64_t kPartialBytes = int64_t{32} << 20;

// A batch of one shape, whose calls go round the layers of its pages.
class AttentionCalls {
 public:
  static StatusOr<std::shared_ptr<AttentionCalls>> Make(CudaDevice& device, const ModelSpec& spec,
                                                        const AttentionBatchShape& shape,
                                                        size_t cold_bytes) {
    std::shared_ptr<AttentionCalls> calls(new AttentionCalls(device, spec, shape));
    RETURN_IF_ERROR(calls->MakePages(cold_bytes));
    RETURN_IF_ERROR(calls->MakePlan());
    const int64_t rows = shape.sequences * shape.rows_each;
    calls->host_q_ = SmallValues(rows * spec.q_size() * kElement);
    ASSIGN_OR_RETURN(calls->q_, Upload(device, calls->host_q_));
    ASSIGN_OR_RETURN(calls->out_, DeviceBuffer::Allocate(device, calls->q_.size_bytes()));
    return calls;
  }

  int num_kernels() const { return max_tiles_ > 0 ? 2 : 1; }

  Status Enqueue(int call) {
    return device_.Check(
        device_.kernels().attention(device_.context(), DType::kBF16,
                                    {.tables = tables_.as<kernels::AttentionTables>(),
                                     .max_items = max_items_,
                                     .max_tiles = max_tiles_,
                                     .max_partials = max_partials_,
                                     .has_wide_tiles = has_wide_tiles_,
                                     .partials = partials_.as<float>(),
                                     .q = q_.data(),
                                     .q_stride = spec_.q_size(),
                                     .layer = kernels::LayerOf(layout_, call % layout_.num_layers),
                                     .num_heads = static_cast<int32_t>(spec_.num_heads),
                                     .scale = ScoreScale(spec_),
                                     .softcap = ScoreSoftcap(spec_),
                                     .out = out_.data(),
                                     .out_stride = spec_.q_size()}),
        "attention");
  }

  Status Check() {
    RETURN_IF_ERROR(device_.Set(out_.data(), 0xFF, out_.size_bytes()));
    RETURN_IF_ERROR(Enqueue(kLastCall));
    ASSIGN_OR_RETURN(const Buffer out, Download(device_, out_));
    return Compare(
        shape_.sequences * shape_.rows_each, spec_.q_size(),
        [&](int64_t row, int64_t col) { return ToDouble(out, row * spec_.q_size() + col); },
        [&](int64_t row, int64_t col) { return Expected(row, col); }, kBf16Error);
  }

 private:
  AttentionCalls(CudaDevice& device, const ModelSpec& spec, AttentionBatchShape shape)
      : device_(device), spec_(spec), shape_(std::move(shape)) {}

  int64_t pages_each() const { return CeilDiv(shape_.context, kPageTokens); }

  Status MakePages(size_t cold_bytes) {
    layout_ = {.num_layers = 1,
               .num_kv_heads = spec_.num_kv_heads,
               .page_tokens = kPageTokens,
               .head_dim = spec_.head_dim,
               .dtype = DType::kBF16};
    const int64_t num_pages = shape_.sequences * pages_each();
    layout_.num_layers =
        std::max(int64_t{1}, static_cast<int64_t>(cold_bytes) / (num_pages * layout_.page_bytes()));
    host_pool_ = SmallValues(num_pages * layout_.page_bytes());
    ASSIGN_OR_RETURN(pool_, Upload(device_, host_pool_));
    for (int64_t page = 0; page < num_pages; ++page) {
      pages_.push_back(pool_.data() + page * layout_.page_bytes());
    }
    ASSIGN_OR_RETURN(page_table_,
                     Upload(device_, pages_.data(), pages_.size() * sizeof(pages_[0])));
    return OkStatus();
  }

  Status MakePlan() {
    std::vector<kernels::AttentionSequence> sequences;
    std::vector<std::byte* const*> tables_of;
    for (int64_t i = 0; i < shape_.sequences; ++i) {
      const auto first_page = static_cast<size_t>(i * pages_each());
      sequences.push_back({.first_row = static_cast<int32_t>(i * shape_.rows_each),
                           .num_rows = static_cast<int32_t>(shape_.rows_each),
                           .first_position = shape_.context - shape_.rows_each,
                           .pages = std::span<std::byte* const>(pages_).subspan(
                               first_page, static_cast<size_t>(pages_each()))});
      tables_of.push_back(page_table_.as<std::byte*>() + first_page);
    }
    const int64_t floats_each = kernels::AttentionPartialFloats(kernels::LayerOf(layout_, 0), 1);
    const kernels::AttentionPlan plan(
        {.dtype = DType::kBF16,
         .num_heads = spec_.num_heads,
         .num_kv_heads = spec_.num_kv_heads,
         .head_dim = spec_.head_dim,
         .num_multiprocessors = device_.context().num_multiprocessors,
         .max_partials = kPartialBytes / static_cast<int64_t>(sizeof(float)) / floats_each},
        sequences);
    max_items_ = static_cast<int32_t>(plan.items().size());
    max_tiles_ = plan.is_split() ? static_cast<int32_t>(plan.tiles().size()) : 0;
    max_partials_ = plan.num_partials();
    has_wide_tiles_ = plan.has_wide_tiles();
    ASSIGN_OR_RETURN(partials_,
                     DeviceBuffer::Allocate(
                         device_, sizeof(float) * static_cast<size_t>(std::max(
                                                      int64_t{1}, floats_each * max_partials_))));
    ASSIGN_OR_RETURN(lists_, DeviceBuffer::Allocate(device_, plan.lists_bytes()));
    std::vector<std::byte> lists(plan.lists_bytes());
    kernels::AttentionTables tables;
    plan.Write(tables, lists.data(), lists_.data(), tables_of);
    RETURN_IF_ERROR(device_.CopyToDevice(lists_.data(), lists.data(), lists.size()));
    RETURN_IF_ERROR(device_.Synchronize());
    ASSIGN_OR_RETURN(tables_, Upload(device_, &tables, sizeof(tables)));
    return OkStatus();
  }

  // An element of K or V of a sequence, in the last call's layer.
  double KeyOrValue(int64_t sequence, int64_t token, int64_t offset, int64_t dim) const {
    const int64_t page = sequence * pages_each() + token / kPageTokens;
    const int64_t at = page * layout_.page_bytes() + offset +
                       token % kPageTokens * layout_.row_bytes() + dim * kElement;
    return ToDouble(host_pool_, at / kElement);
  }

  double Expected(int64_t row, int64_t col) const {
    const int64_t sequence = row / shape_.rows_each, head = col / spec_.head_dim;
    const int64_t seen = shape_.context - shape_.rows_each + row % shape_.rows_each + 1;
    const int64_t kv_head = head / (spec_.num_heads / spec_.num_kv_heads);
    const int64_t layer = kLastCall % layout_.num_layers;
    std::vector<double> scores(static_cast<size_t>(seen));
    for (int64_t token = 0; token < seen; ++token) {
      double& score = scores[static_cast<size_t>(token)];
      for (int64_t d = 0; d < spec_.head_dim; ++d) {
        score += ToDouble(host_q_, row * spec_.q_size() + head * spec_.head_dim + d) *
                 KeyOrValue(sequence, token, layout_.KeyOffset(layer, kv_head), d);
      }
      score *= spec_.AttentionScale();
      if (spec_.attn_softcap) score = kernels::SoftcapRef(*spec_.attn_softcap, score);
    }
    const double largest = std::ranges::max(scores);
    double sum = 0, weights = 0;
    for (int64_t token = 0; token < seen; ++token) {
      const double weight = std::exp(scores[static_cast<size_t>(token)] - largest);
      weights += weight;
      sum += weight *
             KeyOrValue(sequence, token, layout_.ValueOffset(layer, kv_head), col % spec_.head_dim);
    }
    return sum / weights;
  }

  CudaDevice& device_;
  const ModelSpec spec_;
  const AttentionBatchShape shape_;
  kernels::KvLayout layout_;
  Buffer host_pool_, host_q_;
  std::vector<std::byte*> pages_;  // on the device
  int32_t max_items_ = 0, max_tiles_ = 0, max_partials_ = 0;
  bool has_wide_tiles_ = true;
  DeviceBuffer pool_, page_table_, lists_, tables_, partials_, q_, out_;
};

}  // namespace

StatusOr<std::vector<CudaKernelCase>> CudaAttentionCases(
    CudaDevice& device, const ModelSpec& spec, const std::vector<AttentionBatchShape>& batches,
    size_t cold_bytes) {
  if (spec.head_dim % 2 != 0 || spec.head_dim > kernels::kAttentionMaxHeadDim) {
    return InvalidArgument(StrCat("attention on a GPU has even head_dims up to ",
                                  kernels::kAttentionMaxHeadDim, ", not ", spec.head_dim));
  }
  std::vector<CudaKernelCase> cases;
  for (const AttentionBatchShape& shape : batches) {
    ASSIGN_OR_RETURN(const std::shared_ptr<AttentionCalls> calls,
                     AttentionCalls::Make(device, spec, shape, cold_bytes));
    KernelWork work = AttentionWork(spec, shape);
    work.compared_to = cases.size();
    cases.push_back({.work = std::move(work),
                     .num_kernels = calls->num_kernels(),
                     .enqueue = [calls](int call) { return calls->Enqueue(call); },
                     .check = [calls] { return calls->Check(); }});
  }
  return cases;
}

}  // namespace aril

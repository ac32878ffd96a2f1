// Shrinks and expands of batches with adapters.

#include "apps/bench_cuda_cases.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "apps/bench_cuda_operands.h"
#include "base/checked.h"
#include "kernels/lora/lora_plan.h"

namespace aril {
namespace {

using bench_cuda::Compare;
using bench_cuda::Download;
using bench_cuda::kElement;
using bench_cuda::kLastCall;
using bench_cuda::kSumError;
using bench_cuda::ToDouble;
using bench_cuda::Upload;
using kernels::CudaDevice;
using kernels::DeviceBuffer;

// Adapters in cold memory, of which each call takes the next ones.
class LoraAdapters {
 public:
  static StatusOr<std::shared_ptr<LoraAdapters>> Make(CudaDevice& device, const MatrixSize& size,
                                                      const std::vector<int64_t>& ranks,
                                                      int64_t max_rows, size_t cold_bytes) {
    std::shared_ptr<LoraAdapters> adapters(new LoraAdapters(size));
    int64_t bytes = 0;
    while (bytes < static_cast<int64_t>(cold_bytes) ||
           adapters->offsets_.size() % ranks.size() != 0) {
      const int64_t rank = ranks[adapters->offsets_.size() % ranks.size()];
      adapters->offsets_.push_back(bytes);
      adapters->ranks_.push_back(static_cast<int32_t>(rank));
      bytes += rank * (size.in + size.out) * kElement;
    }
    adapters->host_pool_ = SmallValues(bytes);
    adapters->host_x_ = SmallValues(max_rows * size.in * kElement);
    ASSIGN_OR_RETURN(adapters->pool_, Upload(device, adapters->host_pool_));
    ASSIGN_OR_RETURN(adapters->x_, Upload(device, adapters->host_x_));
    const std::vector<kernels::LoraDeviceWeights> weights = adapters->Describe();
    ASSIGN_OR_RETURN(adapters->weights_,
                     Upload(device, weights.data(), weights.size() * sizeof(weights[0])));
    return adapters;
  }

  const MatrixSize& size() const { return size_; }
  size_t count() const { return offsets_.size(); }
  std::span<const int32_t> rank(size_t adapter) const { return {&ranks_[adapter], 1}; }
  const kernels::LoraDeviceWeights* weights(size_t adapter) const {
    return weights_.as<kernels::LoraDeviceWeights>() + adapter;
  }
  const std::byte* x() const { return x_.data(); }

  // What an adapter adds to y at a row and a column.
  double Expected(size_t adapter, int64_t row, int64_t col) const {
    const int64_t rank = ranks_[adapter], a = offsets_[adapter] / kElement;
    const int64_t b = a + rank * size_.in;
    double sum = 0;
    for (int64_t j = 0; j < rank; ++j) {
      double v = 0;
      for (int64_t k = 0; k < size_.in; ++k) {
        v += ToDouble(host_x_, row * size_.in + k) * ToDouble(host_pool_, a + j * size_.in + k);
      }
      sum += v * ToDouble(host_pool_, b + j * size_.out + col);
    }
    return kScale * sum;
  }

 private:
  static constexpr float kScale = 0.5f;

  explicit LoraAdapters(MatrixSize size) : size_(std::move(size)) {}

  // A [rank, in], and behind it Bᵀ [rank, out].
  std::vector<kernels::LoraDeviceWeights> Describe() const {
    std::vector<kernels::LoraDeviceWeights> weights;
    for (size_t i = 0; i < count(); ++i) {
      const kernels::MatrixRun a{pool_.data() + offsets_[i], 0, ranks_[i]};
      const kernels::MatrixRun b{a.data + ranks_[i] * size_.in * kElement, 0, ranks_[i]};
      weights.push_back({.a = kernels::DescribeLoraMatrix({{&a, 1}, size_.in * kElement}, nullptr),
                         .b = kernels::DescribeLoraMatrix({{&b, 1}, size_.out * kElement}, nullptr),
                         .gain = {},
                         .rank = ranks_[i],
                         .scale = kScale});
    }
    return weights;
  }

  const MatrixSize size_;
  std::vector<int64_t> offsets_;  // bytes of the pool
  std::vector<int32_t> ranks_;
  Buffer host_pool_, host_x_;
  DeviceBuffer pool_, x_, weights_;
};

enum class LoraMode { kTogether, kOneByOne };

// A batch of one shape, in kCudaCalls calls.
class LoraCalls {
 public:
  static StatusOr<std::shared_ptr<LoraCalls>> Make(CudaDevice& device,
                                                   std::shared_ptr<LoraAdapters> adapters,
                                                   const LoraBatchShape& shape, LoraMode mode) {
    std::shared_ptr<LoraCalls> calls(new LoraCalls(device, std::move(adapters), shape));
    std::vector<std::byte> tables;
    int64_t v_floats = 0;
    for (int call = 0; call < kCudaCalls; ++call) calls->Plan(mode, call, &tables, &v_floats);
    ASSIGN_OR_RETURN(calls->tables_, Upload(device, tables.data(), tables.size()));
    ASSIGN_OR_RETURN(calls->v_,
                     DeviceBuffer::Allocate(device, static_cast<size_t>(v_floats) * sizeof(float)));
    ASSIGN_OR_RETURN(calls->y_, DeviceBuffer::Allocate(
                                    device, static_cast<size_t>(shape.rows * calls->size().out) *
                                                sizeof(float)));
    return calls;
  }

  int num_kernels() const { return 2 * static_cast<int>(calls_.front().size()); }

  Status Enqueue(int call) {
    const kernels::CudaKernels& kernels = device_.kernels();
    for (const Pair& pair : calls_[static_cast<size_t>(call)]) {
      const auto* const tables =
          reinterpret_cast<const kernels::LoraTables*>(tables_.data() + pair.tables_offset);
      RETURN_IF_ERROR(device_.Check(kernels.lora_shrink(device_.context(), DType::kBF16,
                                                        {.tables = tables,
                                                         .x = adapters_->x(),
                                                         .x_stride = size().in,
                                                         .in = static_cast<int32_t>(size().in),
                                                         .v = v_.as<float>()}),
                                    "LoRA shrink"));
      RETURN_IF_ERROR(device_.Check(kernels.lora_expand(device_.context(), DType::kBF16,
                                                        {.tables = tables,
                                                         .max_rank = pair.max_rank,
                                                         .v = v_.as<float>(),
                                                         .y = y_.as<float>(),
                                                         .y_stride = size().out}),
                                    "LoRA expand"));
    }
    return OkStatus();
  }

  Status Check() {
    RETURN_IF_ERROR(device_.Set(y_.data(), 0, y_.size_bytes()));
    RETURN_IF_ERROR(Enqueue(kLastCall));
    ASSIGN_OR_RETURN(const Buffer y, Download(device_, y_));
    return Compare(
        shape_.rows, size().out,
        [&](int64_t row, int64_t col) { return y.as<float>()[row * size().out + col]; },
        [&](int64_t row, int64_t col) {
          return adapters_->Expected(AdapterOf(kLastCall, SegmentOf(row)), row, col);
        },
        kSumError);
  }

 private:
  // A shrink and an expand.
  struct Pair {
    size_t tables_offset = 0;
    int32_t max_rank = 0;
  };

  LoraCalls(CudaDevice& device, std::shared_ptr<LoraAdapters> adapters, LoraBatchShape shape)
      : device_(device), adapters_(std::move(adapters)), shape_(std::move(shape)) {}

  const MatrixSize& size() const { return adapters_->size(); }
  size_t AdapterOf(int call, size_t segment) const {
    return (static_cast<size_t>(call) * shape_.shares.size() + segment) % adapters_->count();
  }
  size_t SegmentOf(int64_t row) const {
    size_t segment = 0;
    for (; row >= shape_.shares[segment]; ++segment) row -= shape_.shares[segment];
    return segment;
  }

  void Plan(LoraMode mode, int call, std::vector<std::byte>* tables, int64_t* v_floats) {
    std::vector<kernels::LoraPlanSegment> segments;
    int32_t row = 0;
    for (size_t i = 0; i < shape_.shares.size(); ++i) {
      const size_t adapter = AdapterOf(call, i);
      const auto num_rows = static_cast<int32_t>(shape_.shares[i]);
      segments.push_back({row, num_rows, 1, adapters_->weights(adapter), adapters_->rank(adapter)});
      row += num_rows;
    }
    const size_t each = mode == LoraMode::kTogether ? segments.size() : 1;
    std::vector<Pair>& pairs = calls_.emplace_back();
    for (size_t first = 0; first < segments.size(); first += each) {
      const kernels::LoraPlan plan(
          {size().in, {&size().out, 1}, device_.context().num_multiprocessors},
          std::span(segments).subspan(first, each));
      pairs.push_back({tables->size(), plan.max_rank()});
      constexpr int64_t kAligned = alignof(kernels::LoraTables);
      tables->resize(tables->size() +
                     static_cast<size_t>(CeilDiv(plan.table_bytes(), kAligned) * kAligned));
      plan.Write(tables->data() + pairs.back().tables_offset);
      *v_floats = std::max(*v_floats, plan.v_floats());
    }
  }

  CudaDevice& device_;
  const std::shared_ptr<LoraAdapters> adapters_;
  const LoraBatchShape shape_;
  std::vector<std::vector<Pair>> calls_;
  DeviceBuffer tables_, v_, y_;
};

}  // namespace

StatusOr<std::vector<CudaKernelCase>> CudaLoraCases(CudaDevice& device, const MatrixSize& size,
                                                    const LoraCasesOptions& options,
                                                    size_t cold_bytes) {
  ASSIGN_OR_RETURN(
      const std::shared_ptr<LoraAdapters> adapters,
      LoraAdapters::Make(device, size, options.ranks, std::ranges::max(options.rows), cold_bytes));
  std::vector<CudaKernelCase> cases;
  for (const LoraBatchShape& shape : LoraBatches(options)) {
    KernelWork work = LoraWork(size, options.ranks, shape);
    work.bytes += static_cast<double>(shape.rows * size.in * kElement);
    work.bytes += 2 * static_cast<double>(shape.rows * size.out) * sizeof(float);
    work.compared_to = cases.size();
    for (const LoraMode mode : {LoraMode::kTogether, LoraMode::kOneByOne}) {
      if (mode == LoraMode::kOneByOne) work.kernel = "lora, loop over adapters";
      ASSIGN_OR_RETURN(const std::shared_ptr<LoraCalls> calls,
                       LoraCalls::Make(device, adapters, shape, mode));
      cases.push_back({.work = work,
                       .num_kernels = calls->num_kernels(),
                       .enqueue = [calls](int call) { return calls->Enqueue(call); },
                       .check = [calls] { return calls->Check(); }});
    }
  }
  return cases;
}

}  // namespace aril

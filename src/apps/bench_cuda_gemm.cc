// Products with a matrix of weights.

#include "apps/bench_cuda_cases.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "apps/bench_cuda_operands.h"

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

class GemmCalls {
 public:
  static StatusOr<std::shared_ptr<GemmCalls>> Make(CudaDevice& device, const MatrixSize& size,
                                                   int64_t max_rows, size_t cold_bytes) {
    std::shared_ptr<GemmCalls> calls(new GemmCalls(device, size, max_rows));
    calls->host_w_ = SmallValues(size.out * size.in * kElement);
    calls->host_x_ = SmallValues(max_rows * size.in * kElement);
    ASSIGN_OR_RETURN(calls->x_, Upload(device, calls->host_x_));
    ASSIGN_OR_RETURN(
        calls->y_,
        DeviceBuffer::Allocate(device, static_cast<size_t>(max_rows * size.out) * sizeof(float)));
    for (size_t bytes = 0; bytes < cold_bytes; bytes += calls->host_w_.size_bytes()) {
      ASSIGN_OR_RETURN(calls->copies_.emplace_back(), Upload(device, calls->host_w_));
    }
    return calls;
  }

  Status Prepare(kernels::CudaGemm& gemm, int64_t rows) {
    std::vector<kernels::CudaGemmArgs> calls;
    for (const DeviceBuffer& w : copies_) calls.push_back(ArgsOf(rows, w));
    return gemm.Prepare(calls);
  }

  Status Enqueue(kernels::CudaGemm& gemm, int64_t rows, int call) {
    return gemm.Run(ArgsOf(rows, copies_[static_cast<size_t>(call) % copies_.size()]));
  }

  Status Check(kernels::CudaGemm& gemm, int64_t rows) {
    RETURN_IF_ERROR(device_.Set(y_.data(), 0xFF, y_.size_bytes()));
    RETURN_IF_ERROR(Enqueue(gemm, rows, kLastCall));
    ASSIGN_OR_RETURN(const Buffer y, Download(device_, y_));
    return Compare(
        rows, size_.out,
        [&](int64_t row, int64_t col) { return y.as<float>()[row * size_.out + col]; },
        [&](int64_t row, int64_t col) {
          double sum = 0;
          for (int64_t k = 0; k < size_.in; ++k) {
            sum += ToDouble(host_x_, row * size_.in + k) * ToDouble(host_w_, col * size_.in + k);
          }
          return sum;
        },
        kSumError);
  }

 private:
  GemmCalls(CudaDevice& device, MatrixSize size, int64_t max_rows)
      : device_(device),
        size_(std::move(size)),
        max_rows_(std::max(max_rows, kernels::kUsualGemmRows)) {}

  kernels::CudaGemmArgs ArgsOf(int64_t rows, const DeviceBuffer& w) const {
    return {.dtype = DType::kBF16,
            .rows = rows,
            .max_rows = max_rows_,
            .n = size_.out,
            .k = size_.in,
            .x = x_.data(),
            .x_stride = size_.in,
            .w = w.data(),
            .y = y_.as<float>(),
            .y_stride = size_.out};
  }

  CudaDevice& device_;
  const MatrixSize size_;
  const int64_t max_rows_;  // of a server whose steps have so many
  Buffer host_w_, host_x_;
  std::vector<DeviceBuffer> copies_;  // of W
  DeviceBuffer x_, y_;
};

}  // namespace

StatusOr<std::vector<CudaKernelCase>> CudaGemmCases(CudaDevice& device, const CudaGemms& gemms,
                                                    const MatrixSize& size,
                                                    const std::vector<int64_t>& rows,
                                                    size_t cold_bytes) {
  ASSIGN_OR_RETURN(const std::shared_ptr<GemmCalls> calls,
                   GemmCalls::Make(device, size, std::ranges::max(rows), cold_bytes));
  RETURN_IF_ERROR(calls->Prepare(gemms.invariant, std::ranges::max(rows)));
  std::vector<CudaKernelCase> cases;
  for (const int64_t num_rows : rows) {
    KernelWork work = GemmWork(size, kernels::WeightFormat::kBF16, num_rows);
    work.compared_to = cases.size();
    for (kernels::CudaGemm* const gemm : {&gemms.fastest, &gemms.invariant}) {
      if (gemm == &gemms.invariant) work.kernel = "gemm, invariant";
      cases.push_back({.work = work,
                       .num_kernels = 1,
                       .enqueue = [=](int call) { return calls->Enqueue(*gemm, num_rows, call); },
                       .check = [=] { return calls->Check(*gemm, num_rows); }});
    }
  }
  return cases;
}

}  // namespace aril

#include "apps/gpu_limits.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "apps/bench_numbers.h"

namespace aril {
namespace {

// Many times the second-level cache; also of a product's operands.
constexpr size_t kBytes = size_t{1} << 29;
constexpr int64_t kSize = 8192;  // of a matrix: its fp32 take half of that
constexpr int kRuns = 7;

// Values of either sign around 2^-7, in BF16 and, two by two, in fp32. Products of zeros would take
// less power, and the clock would be higher than it ever is.
std::vector<uint16_t> SmallValues(size_t size_bytes) {
  std::vector<uint16_t> values(size_bytes / sizeof(uint16_t));
  uint32_t state = 1;
  for (uint16_t& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<uint16_t>(0x3C00 | (state >> 16 & 0x80FF));
  }
  return values;
}

}  // namespace

StatusOr<std::unique_ptr<GpuProbe>> GpuProbe::Create() {
  std::unique_ptr<GpuProbe> probe(new GpuProbe());
  ASSIGN_OR_RETURN(probe->device_, kernels::OpenCudaDevice());
  ASSIGN_OR_RETURN(probe->gemm_,
                   kernels::OpenCudaGemm(*probe->device_, kernels::GemmChoice::kFastest));
  for (kernels::DeviceBuffer* buffer : {&probe->from_, &probe->to_}) {
    ASSIGN_OR_RETURN(*buffer, kernels::DeviceBuffer::Allocate(*probe->device_, kBytes));
  }
  const std::vector<uint16_t> values = SmallValues(kBytes);
  RETURN_IF_ERROR(probe->device_->CopyToDevice(probe->from_.data(), values.data(), kBytes));
  RETURN_IF_ERROR(probe->device_->Synchronize());
  return probe;
}

StatusOr<double> GpuProbe::BytesPerSecond() {
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    ASSIGN_OR_RETURN(const double us, device_->TimeUs([this] {
      return device_->CopyWithin(to_.data(), from_.data(), kBytes);
    }));
    rates.push_back(2.0 * static_cast<double>(kBytes) / us * 1e6);
  }
  return Median(std::move(rates));
}

StatusOr<double> GpuProbe::OperationsPerSecond(DType dtype) {
  const kernels::CudaGemmArgs product = {.dtype = dtype,
                                         .rows = kSize,
                                         .max_rows = kSize,
                                         .n = kSize,
                                         .k = kSize,
                                         .x = from_.data(),
                                         .x_stride = kSize,
                                         .w = from_.data(),
                                         .y = to_.as<float>(),
                                         .y_stride = kSize};
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    ASSIGN_OR_RETURN(const double us, device_->TimeUs([&] { return gemm_->Run(product); }));
    rates.push_back(2.0 * kSize * kSize * kSize / us * 1e6);
  }
  return Median(std::move(rates));
}

StatusOr<MachineLimits> GpuProbe::Measure() {
  MachineLimits limits;
  ASSIGN_OR_RETURN(limits.read_bytes_per_s, BytesPerSecond());
  ASSIGN_OR_RETURN(limits.f32_per_s, OperationsPerSecond(DType::kF32));
  ASSIGN_OR_RETURN(limits.bf16_per_s, OperationsPerSecond(DType::kBF16));
  return limits;
}

}  // namespace aril

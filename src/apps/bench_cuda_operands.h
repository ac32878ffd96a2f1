// What the CUDA cases of `aril bench kernels` share: operands to and from the device, and how a
// result is compared with its definition.

#ifndef ARIL_APPS_BENCH_CUDA_OPERANDS_H_
#define ARIL_APPS_BENCH_CUDA_OPERANDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "apps/bench_cuda_cases.h"
#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "tensor/buffer.h"

namespace aril::bench_cuda {

inline constexpr int64_t kElement = 2;  // bytes of a BF16
inline constexpr int kLastCall = kCudaCalls - 1;
// What sums of some thousand products may miss in fp32, by far; and what weights and results that
// are rounded to BF16 may: 2^-9 of each, and of their sum. What is wrong misses by about 1.
inline constexpr double kSumError = 1e-4;
inline constexpr double kBf16Error = 0x1p-7;

// An element of a buffer of BF16.
double ToDouble(const Buffer& buffer, int64_t index);

// Both wait for the device.
StatusOr<kernels::DeviceBuffer> Upload(kernels::CudaDevice& device, const void* data,
                                       size_t size_bytes);
StatusOr<kernels::DeviceBuffer> Upload(kernels::CudaDevice& device, const Buffer& buffer);
StatusOr<Buffer> Download(kernels::CudaDevice& device, const kernels::DeviceBuffer& from);

// Compares [rows, cols] at some places: relative to all of them together.
Status Compare(int64_t rows, int64_t cols, const std::function<double(int64_t, int64_t)>& got,
               const std::function<double(int64_t, int64_t)>& expected, double bound);

}  // namespace aril::bench_cuda

#endif  // ARIL_APPS_BENCH_CUDA_OPERANDS_H_

#include "apps/bench_cuda_operands.h"

#include <cmath>
#include <random>

#include "base/strings.h"

namespace aril::bench_cuda {
namespace {

using kernels::CudaDevice;
using kernels::DeviceBuffer;

constexpr uint64_t kSeed = 1;
constexpr int kCheckedPlaces = 64;

}  // namespace

double ToDouble(const Buffer& buffer, int64_t index) {
  return static_cast<double>(ToFloat(buffer.as<BF16>()[index]));
}

StatusOr<DeviceBuffer> Upload(CudaDevice& device, const void* data, size_t size_bytes) {
  ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Allocate(device, size_bytes));
  RETURN_IF_ERROR(device.CopyToDevice(buffer.data(), data, size_bytes));
  RETURN_IF_ERROR(device.Synchronize());
  return buffer;
}

StatusOr<DeviceBuffer> Upload(CudaDevice& device, const Buffer& buffer) {
  return Upload(device, buffer.data(), buffer.size_bytes());
}

StatusOr<Buffer> Download(CudaDevice& device, const DeviceBuffer& from) {
  Buffer buffer(from.size_bytes());
  RETURN_IF_ERROR(device.CopyToHost(buffer.data(), from.data(), from.size_bytes()));
  RETURN_IF_ERROR(device.Synchronize());
  return buffer;
}

Status Compare(int64_t rows, int64_t cols, const std::function<double(int64_t, int64_t)>& got,
               const std::function<double(int64_t, int64_t)>& expected, double bound) {
  std::mt19937_64 random(kSeed);
  double error = 0, norm = 0;
  for (int i = 0; i < kCheckedPlaces; ++i) {
    const auto row = static_cast<int64_t>(random() % static_cast<uint64_t>(rows));
    const auto col = static_cast<int64_t>(random() % static_cast<uint64_t>(cols));
    const double right = expected(row, col);
    error += std::pow(got(row, col) - right, 2);
    norm += std::pow(right, 2);
  }
  // Also of what is no number.
  if (std::sqrt(error) <= bound * std::sqrt(norm)) return OkStatus();
  return Internal(StrCat("a wrong result: it misses by ", std::sqrt(error / norm),
                         " of what is right, in the mean of ", kCheckedPlaces,
                         " places drawn with the seed ", kSeed));
}

}  // namespace aril::bench_cuda

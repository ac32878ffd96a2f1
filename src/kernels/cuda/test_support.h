// Where the tests of CUDA kernels run: in the emulator, in both of its orders, and on a GPU if
// there is one. With ARIL_REQUIRE_GPU=1 in the environment, that there is none is a failure.

#ifndef ARIL_KERNELS_CUDA_TEST_SUPPORT_H_
#define ARIL_KERNELS_CUDA_TEST_SUPPORT_H_

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/emulated_device.h"
#include "kernels/test_support.h"

namespace aril::kernels {

enum class Place { kEmulator, kGpu };

// Tests run every kernel on each of devices(), and compare bits: the two orders of the emulator
// differ where a barrier is missing, two runs of a GPU where there is a race.
class CudaTest : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (GetParam() == Place::kEmulator) {
      devices_.push_back(MakeEmulatedDevice(emulator::Order::kForward, 2));
      devices_.push_back(MakeEmulatedDevice(emulator::Order::kBackward, 1));
      return;
    }
    for (int run = 0; run < 2; ++run) {
      auto device = OpenCudaDevice();
      if (!device.ok() && IsGpuRequired()) FAIL() << Message(device.status());
      if (!device.ok()) GTEST_SKIP() << Message(device.status());
      devices_.push_back(std::move(device).value());
    }
  }

  const std::vector<std::unique_ptr<CudaDevice>>& devices() const { return devices_; }
  bool emulated() const { return GetParam() == Place::kEmulator; }

 private:
  static bool IsGpuRequired() {
    const char* value = std::getenv("ARIL_REQUIRE_GPU");
    return value != nullptr && std::string(value) == "1";
  }

  std::vector<std::unique_ptr<CudaDevice>> devices_;
};

#define ARIL_INSTANTIATE_CUDA_TEST(suite)                                                          \
  INSTANTIATE_TEST_SUITE_P(                                                                        \
      , suite, ::testing::Values(::aril::kernels::Place::kEmulator, ::aril::kernels::Place::kGpu), \
      [](const auto& place) {                                                                      \
        return place.param == ::aril::kernels::Place::kEmulator ? "Emulator" : "Gpu";              \
      })

// The oracle does not know F16: operands are F32 then, rounded to F16, and uploaded as that.
struct TestDType {
  DType host;
  DType device;
};
inline constexpr TestDType kDTypes[] = {
    {DType::kF32, DType::kF32}, {DType::kBF16, DType::kBF16}, {DType::kF32, DType::kF16}};

inline void RoundTo(DType dtype, const TestMatrix& matrix) {
  if (dtype != DType::kF16) return;
  const MatrixView<float> view = matrix.floats();
  for (int64_t r = 0; r < view.rows; ++r) {
    for (int64_t c = 0; c < view.cols; ++c) view.row(r)[c] = ToFloat(ToF16(view.row(r)[c]));
  }
}

// The floats of a host's matrix or pool as bytes of the device's dtype.
inline std::vector<std::byte> ToDeviceDType(const void* from, size_t num_bytes, TestDType dtype) {
  const auto* bytes = static_cast<const std::byte*>(from);
  if (dtype.host == dtype.device) return {bytes, bytes + num_bytes};
  const auto* values = static_cast<const float*>(from);
  std::vector<std::byte> halves(num_bytes / 2);
  for (size_t i = 0; i < num_bytes / sizeof(float); ++i) {
    const F16 half = ToF16(values[i]);
    std::memcpy(&halves[i * sizeof(half)], &half, sizeof(half));
  }
  return halves;
}

// An element of a device's result.
inline float ElementOf(const std::vector<std::byte>& bytes, size_t index, DType dtype) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, &bytes[index * sizeof(value)], sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, &bytes[index * sizeof(bits)], sizeof(bits));
  return dtype == DType::kF16 ? ToFloat(F16{bits}) : ToFloat(BF16{bits});
}

// Half a unit in the last place of a value that was rounded to the dtype, relative.
inline double EpsOf(DType dtype) {
  if (dtype == DType::kF32) return kFloatEps;
  return dtype == DType::kF16 ? 0x1p-11 : kBf16Eps;
}

inline void Require(const Status& status) {
  if (!status.ok()) internal::CheckFailed(__FILE__, __LINE__, "device", Message(status));
}

inline DeviceBuffer Allocate(CudaDevice& device, size_t size_bytes) {
  auto buffer = DeviceBuffer::Allocate(device, size_bytes);
  Require(buffer.status());
  return std::move(buffer).value();
}

// A copy of `values` on the device.
template <typename T>
DeviceBuffer Upload(CudaDevice& device, const std::vector<T>& values) {
  const size_t size_bytes = std::span(values).size_bytes();
  DeviceBuffer buffer = Allocate(device, size_bytes);
  Require(device.CopyToDevice(buffer.data(), values.data(), size_bytes));
  Require(device.Synchronize());
  return buffer;
}

template <typename T>
std::vector<T> Download(CudaDevice& device, const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.size_bytes() / sizeof(T));
  Require(device.CopyToHost(values.data(), buffer.data(), values.size() * sizeof(T)));
  Require(device.Synchronize());
  return values;
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CUDA_TEST_SUPPORT_H_

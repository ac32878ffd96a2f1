// What the weights of a model take of a device's memory, as it is said before they are loaded.

#include "model/cuda_weights.h"

#include "gtest/gtest.h"
#include "model/cuda_backend_test_fixture.h"

namespace aril {
namespace {

void ExpectBytesAsSaid(const Golden& golden, DType dtype, Quantization quantization) {
  const auto device = kernels::MakeEmulatedDevice(kernels::emulator::Order::kForward, 2);
  Checkpoint checkpoint = Value(OpenBaseCheckpoint(golden.path, golden.spec));
  RoundLayers(golden.spec, quantization, &checkpoint);
  const auto said =
      static_cast<double>(DeviceWeightBytes(checkpoint, golden.spec, dtype, quantization));
  ThreadPool threads(1);
  const int64_t before = Value(device->FreeBytes());
  const DeviceWeights weights = Value(LoadDeviceWeights(std::move(checkpoint), golden.spec, dtype,
                                                        quantization, *device, threads, nullptr));
  const auto taken = static_cast<double>(before - Value(device->FreeBytes()));
  // Biases of zeros, as AutoGPTQ wrote them, are counted and left out: in models as small as these
  // that is some hundredths.
  EXPECT_NEAR(taken / said, 1, 0.05) << golden.name << ' ' << dtype << ' ' << Name(quantization);
}

TEST(DeviceWeights, TakeWhatIsSaidOfThem) {
  for (const Golden& golden : Goldens()) {
    for (const auto quantization :
         {Quantization::kNone, Quantization::kInt8, Quantization::kInt4, Quantization::kNf4}) {
      ExpectBytesAsSaid(golden, DType::kF16, quantization);
    }
  }
  for (const Golden& golden : QuantizedGoldens()) {
    for (const auto quantization : {Quantization::kNone, Quantization::kInt4}) {
      ExpectBytesAsSaid(golden, DType::kBF16, quantization);
    }
  }
}

}  // namespace
}  // namespace aril

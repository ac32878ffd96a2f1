// Weights on a device: what of them stays quantized, and that they take as much memory as is said
// before they are loaded.

#include "model/cuda_weights.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

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

// A checkpoint of bitsandbytes.
class DeviceCodes : public ::testing::Test {
 protected:
  Checkpoint Open() const { return Value(OpenBaseCheckpoint(path_, spec_)); }
  DeviceWeights Load(Checkpoint checkpoint) {
    return Value(LoadDeviceWeights(std::move(checkpoint), spec_, DType::kBF16, Quantization::kNone,
                                   *device_, threads_, nullptr));
  }

  const std::string path_ = SourcePath("tests/goldens-quantized/bnb-nf4-llama");
  const ModelSpec spec_ = Value(LoadModelSpec(path_));
  const std::unique_ptr<kernels::CudaDevice> device_ =
      kernels::MakeEmulatedDevice(kernels::emulator::Order::kForward, 2);
  ThreadPool threads_{1};
};

std::optional<kernels::WeightFormat> FormatOf(const DeviceWeights& weights, size_t layer,
                                              ProjectionGroup group) {
  const auto& quantized = weights.layers[layer].groups[static_cast<size_t>(group)].w.quantized;
  return quantized ? std::optional(quantized->format) : std::nullopt;
}

TEST_F(DeviceCodes, StayCodesBesideOthersOnly) {
  const DeviceWeights weights = Load(Open());
  for (const ProjectionGroup group : ProjectionGroupsOf(spec_, 0)) {
    EXPECT_EQ(FormatOf(weights, 0, group), kernels::WeightFormat::kCodebook4);
  }
  // Of this one, k_proj has numbers.
  EXPECT_EQ(FormatOf(weights, 1, ProjectionGroup::kQkv), std::nullopt);
  EXPECT_EQ(FormatOf(weights, 1, ProjectionGroup::kO), kernels::WeightFormat::kCodebook4);
}

TEST_F(DeviceCodes, OfSeveralCodebooksBecomeNumbers) {
  Checkpoint checkpoint = Open();
  MatrixMap changed = checkpoint.matrices();
  std::get<Codebook4View>(changed.at("model.layers.0.mlp.up_proj.weight")).codebook[3] /= 2;
  checkpoint.ShowAs(checkpoint.tensors(), std::move(changed));
  const DeviceWeights weights = Load(std::move(checkpoint));
  EXPECT_EQ(FormatOf(weights, 0, ProjectionGroup::kGateUp), std::nullopt);
  EXPECT_EQ(FormatOf(weights, 1, ProjectionGroup::kGateUp), kernels::WeightFormat::kCodebook4);
}

}  // namespace
}  // namespace aril

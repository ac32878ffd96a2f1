// What a device promises about graphs, of the emulator and of a GPU alike.

#include "kernels/cuda/cuda_device.h"

#include "gtest/gtest.h"
#include "kernels/cuda/test_support.h"

namespace aril::kernels {
namespace {

class CudaGraphs : public CudaTest {};

// Of copies and of launches: arguments are those of the capture, memory is what it is at a replay.
TEST_P(CudaGraphs, KeepTheirArgumentsAndReadMemoryWhenTheyRun) {
  constexpr int32_t kSize = 3;
  for (const auto& device : devices()) {
    const DeviceBuffer table = Upload(*device, std::vector<float>{1, 2, 3, 4, 5, 6}),
                       token = Upload(*device, std::vector<int32_t>{0}),
                       out = Upload(*device, std::vector<float>(kSize)),
                       copy = Upload(*device, std::vector<float>(kSize));
    int captures = 0;
    int32_t rows = 1;
    size_t copied_bytes = kSize * sizeof(float);
    auto graph = device->Capture([&] {
      ++captures;
      RETURN_IF_ERROR(device->Check(device->kernels().embed(device->context(), DType::kF32,
                                                            {.tokens = token.as<int32_t>(),
                                                             .table = table.data(),
                                                             .rows = rows,
                                                             .vocab = 2,
                                                             .size = kSize,
                                                             .out = out.as<float>(),
                                                             .out_stride = kSize}),
                                    "embed"));
      return device->CopyWithin(copy.data(), out.data(), copied_bytes);
    });
    Require(graph.status());
    EXPECT_EQ(Download<float>(*device, out), std::vector<float>(kSize)) << "it ran when captured";
    rows = 0;
    copied_bytes = 0;
    Require((*graph)->Replay());
    EXPECT_EQ(Download<float>(*device, copy), (std::vector<float>{1, 2, 3}));
    const int32_t next = 1;
    Require(device->CopyToDevice(token.data(), &next, sizeof(next)));
    Require((*graph)->Replay());
    EXPECT_EQ(Download<float>(*device, copy), (std::vector<float>{4, 5, 6}));
    EXPECT_EQ(captures, 1);
  }
}

TEST_P(CudaGraphs, AFailedCaptureIsReportedAndTheDeviceGoesOn) {
  for (const auto& device : devices()) {
    const auto failed = device->Capture([] { return Internal("no"); });
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(Message(failed.status()), "no");
    // On a GPU it is, too; compute-sanitizer would report the call.
    if (emulated()) {
      EXPECT_FALSE(device->Capture([&] { return device->Synchronize(); }).ok());
    }
    const DeviceBuffer values = Upload(*device, std::vector<float>{7});
    EXPECT_EQ(Download<float>(*device, values), std::vector<float>{7});
  }
}

ARIL_INSTANTIATE_CUDA_TEST(CudaGraphs);

TEST(EmulatedDevice, KnowsItsMemoryFromTheHosts) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const std::byte of_host{};
  const auto owns = [&](std::vector<const std::byte*> addresses) {
    return device->OwnsAll(addresses);
  };
  DeviceBuffer buffer = Allocate(*device, 16);
  const std::byte* const begin = buffer.data();
  EXPECT_TRUE(owns({}));
  EXPECT_TRUE(owns({begin, begin + 15}));
  EXPECT_FALSE(owns({begin, begin + 16}));
  EXPECT_FALSE(owns({&of_host}));
  EXPECT_FALSE(owns({nullptr}));
  auto pinned = PinnedBuffer::Allocate(*device, 16);
  Require(pinned.status());
  EXPECT_FALSE(owns({pinned->data()}));
  buffer = {};
  EXPECT_FALSE(owns({begin}));
}

// So that a host that does not wait is wrong every time.
TEST(EmulatedDevice, RunsNothingBeforeSomebodyWaits) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1);
  const DeviceBuffer buffer = Upload(*device, std::vector<int32_t>{0});
  int32_t from = 1, to = 0;
  const auto event = device->MakeEvent();
  Require(event.status());
  Require(device->CopyToDevice(buffer.data(), &from, sizeof(from)));
  Require((*event)->Record());
  Require(device->CopyToHost(&to, buffer.data(), sizeof(to)));
  from = 2;
  Require((*event)->Wait());
  from = 3;
  EXPECT_EQ(to, 0);
  Require(device->Synchronize());
  EXPECT_EQ(to, 2);
  Require((*event)->Wait());
}

TEST(EmulatedDevice, HasNoMoreMemoryThanItWasGiven) {
  const auto device = MakeEmulatedDevice(emulator::Order::kForward, 1, 1000);
  DeviceBuffer most = Allocate(*device, 900);
  EXPECT_EQ(DeviceBuffer::Allocate(*device, 101).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(*device->FreeBytes(), 100);
  most = {};
  EXPECT_EQ(*device->FreeBytes(), 1000);
}

}  // namespace
}  // namespace aril::kernels

// The emulator itself: that it does what the PTX manual says of an instruction, and that it finds
// the mistakes that it is there for.

#include "kernels/cuda/emulator.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "tensor/dtype.h"

namespace aril::kernels::emulated {
namespace {

using emulator::Order;

template <typename Args>
void RunKernel(Order order, const LaunchShape& shape, void (*kernel)(Args), const Args& args) {
  emulator::Stream stream{order};
  CudaContext context;
  context.stream = &stream;
  ASSERT_EQ(LaunchKernel(context, shape, kernel, args), 0);
}

// Every thread leaves its number in shared memory, and reads its neighbour's.
struct RotateArgs {
  int* out;
  bool with_barrier;
};
void Rotate(const RotateArgs args) {
  int* shared = SharedMemory<int>();
  const int n = 64;
  shared[ThreadIdx()] = BlockIdx() * 1000 + ThreadIdx();
  if (args.with_barrier) SyncThreads();
  args.out[BlockIdx() * n + ThreadIdx()] = shared[(ThreadIdx() + 1) % n];
}

std::vector<int> RunRotate(Order order, bool with_barrier) {
  std::vector<int> out(3 * 64);
  RunKernel<RotateArgs>(order, {3, 64, 64 * sizeof(int)}, Rotate,
                        RotateArgs{out.data(), with_barrier});
  return out;
}

TEST(Emulator, SharesMemoryWithinABlockAndWaitsAtBarriers) {
  for (const Order order : {Order::kForward, Order::kBackward}) {
    const std::vector<int> out = RunRotate(order, true);
    for (int i = 0; i < 3 * 64; ++i) {
      EXPECT_EQ(out[static_cast<size_t>(i)], i / 64 * 1000 + (i + 1) % 64);
    }
  }
}

TEST(Emulator, AMissingBarrierShowsInOneOfTheOrders) {
  EXPECT_NE(RunRotate(Order::kForward, false), RunRotate(Order::kBackward, false));
}

TEST(Emulator, SharedMemoryBeginsAsNaNInEveryBlock) {
  std::vector<float> seen(2);
  RunKernel<float*>(
      Order::kForward, {2, 32, sizeof(float)},
      [](float* const out) {
        if (ThreadIdx() != 0) return;
        out[BlockIdx()] = *SharedMemory<float>();
        *SharedMemory<float>() = 1;
      },
      seen.data());
  EXPECT_TRUE(std::isnan(seen[0]) && std::isnan(seen[1]));
}

TEST(Emulator, ShufflesAcrossLanes) {
  std::vector<float> out(32);
  RunKernel<float*>(
      Order::kForward, {1, 32, 0},
      [](float* const values) {
        float sum = static_cast<float>(ThreadIdx());
        for (int mask = 16; mask > 0; mask /= 2) sum += ShuffleXor(sum, mask);
        values[ThreadIdx()] = sum;
      },
      out.data());
  for (const float value : out) EXPECT_EQ(value, 31 * 32 / 2);
}

// Element (row, col) of matrix i is 100 i + 10 row + col; rows lie in shared memory backwards.
template <bool kTransposed>
void LoadNumbers(uint16_t* const out) {
  auto* rows = SharedMemory<uint16_t[8]>();
  const int lane = ThreadIdx();
  for (int c = 0; c < 8; ++c) {
    rows[31 - lane][c] = static_cast<uint16_t>(100 * (lane / 8) + 10 * (lane % 8) + c);
  }
  SyncWarp();
  uint32_t m[4];
  if (kTransposed) {
    LoadMatricesTransposed(rows[31 - lane], m);
  } else {
    LoadMatrices(rows[31 - lane], m);
  }
  memcpy(out + 8 * lane, m, sizeof(m));
}

TEST(Emulator, LoadsMatricesInTheManualsLayout) {
  for (const bool transposed : {false, true}) {
    std::vector<uint16_t> out(32 * 8);
    RunKernel<uint16_t*>(Order::kBackward, {1, 32, 32 * 16},
                         transposed ? LoadNumbers<true> : LoadNumbers<false>, out.data());
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 8; ++i) {
        const int first = lane / 4, second = lane % 4 * 2 + i % 2;
        const int expected =
            100 * (i / 2) + (transposed ? 10 * second + first : 10 * first + second);
        EXPECT_EQ(out[static_cast<size_t>(8 * lane + i)], expected) << transposed << lane;
      }
    }
  }
}

TEST(Emulator, VotesWithinAWarp) {
  std::vector<int> out(64);
  RunKernel<int*>(
      Order::kForward, {1, 64, 0},
      [](int* const any) { any[ThreadIdx()] = AnyInWarp(ThreadIdx() == 40) ? 1 : 0; }, out.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i / 32);
}

TEST(Emulator, PacksToNearest) {
  EXPECT_EQ(PackBf16(1, -2), 0xC0003F80u);
  EXPECT_EQ(PackBf16(1 + 0x1p-8f, 1 + 0x1.8p-7f), 0x3F823F80u);
  EXPECT_EQ(PackF16(1, -2), 0xC0003C00u);
  EXPECT_EQ(PackF16(1 + 0x1p-11f, 1 + 0x1.8p-10f), 0x3C023C00u);
}

// Copies two groups of 16 bytes to shared memory, and reads both behind a wait for `kNewest`.
struct CopyArgs {
  const Vector16* from;
  uint32_t* out;
};
template <int kNewest>
void CopyTwo(const CopyArgs args) {
  auto* shared = SharedMemory<Vector16>() + 2 * ThreadIdx();
  CopyAsync16(shared, args.from, true);
  CommitCopies();
  CopyAsync16(shared + 1, args.from, false);
  CommitCopies();
  WaitForCopies<kNewest>();
  for (int i = 0; i < 2; ++i) args.out[2 * ThreadIdx() + i] = shared[i].words[3];
  WaitForCopies<0>();
}

TEST(Emulator, CopiesArriveAtOnceOrAsLateAsTheyMay) {
  const Vector16 from = {{1, 2, 3, 4}};
  const auto run = [&](Order order, auto kernel) {
    std::vector<uint32_t> out(2 * 32);
    RunKernel<CopyArgs>(order, {1, 32, 2 * 32 * sizeof(Vector16)}, kernel,
                        CopyArgs{&from, out.data()});
    return std::vector<uint32_t>(out.end() - 2, out.end());
  };
  constexpr uint32_t kPoisoned = 0xFFFFFFFF;
  using Words = std::vector<uint32_t>;
  EXPECT_EQ(run(Order::kForward, CopyTwo<2>), (Words{4, 0}));
  EXPECT_EQ(run(Order::kBackward, CopyTwo<2>), (Words{kPoisoned, kPoisoned}));
  EXPECT_EQ(run(Order::kBackward, CopyTwo<1>), (Words{4, kPoisoned}));
  EXPECT_EQ(run(Order::kBackward, CopyTwo<0>), (Words{4, 0}));
}

// A [16, 16] holds 1 at one place, B [16, 8] a number of its own everywhere: the product is that
// row of B. Where each lane holds what was copied from the manual's formulas, which this test
// writes once more, element by element rather than register by register.
struct MmaArgs {
  int row;
  int k;
  float* c;
};

int ElementRowOfA(int lane, int i) { return i < 2 || (4 <= i && i < 6) ? lane / 4 : lane / 4 + 8; }
int ElementColOfA(int lane, int i) { return lane % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0); }
int ElementRowOfB(int lane, int i) { return lane % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0); }
int ElementRowOfC(int lane, int i) { return i < 2 ? lane / 4 : lane / 4 + 8; }
int ElementColOfC(int lane, int i) { return lane % 4 * 2 + (i & 1); }

template <bool kHalf>
void MultiplyUnit(const MmaArgs args) {
  const int lane = ThreadIdx();
  const auto bits = [](float value) -> uint32_t {
    return kHalf ? ToF16(value).bits : ToBF16(value).bits;
  };
  uint32_t a[4] = {}, b[2] = {};
  for (int i = 0; i < 8; ++i) {
    const bool one = ElementRowOfA(lane, i) == args.row && ElementColOfA(lane, i) == args.k;
    a[i / 2] |= bits(one ? 1.0f : 0.0f) << 16 * (i % 2);
  }
  for (int i = 0; i < 4; ++i) {
    const int number = ElementRowOfB(lane, i) * 8 + lane / 4;
    b[i / 2] |= bits(static_cast<float>(number)) << 16 * (i % 2);
  }
  float c[4] = {1, 1, 1, 1};
  if (kHalf) {
    MmaF16(c, a, b);
  } else {
    MmaBf16(c, a, b);
  }
  for (int i = 0; i < 4; ++i) args.c[ElementRowOfC(lane, i) * 8 + ElementColOfC(lane, i)] = c[i];
}

TEST(Emulator, MatrixInstructionsHaveTheManualsLayout) {
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (const auto kernel : {MultiplyUnit<false>, MultiplyUnit<true>}) {
        std::vector<float> c(16 * 8);
        RunKernel<MmaArgs>(Order::kBackward, {1, 32, 0}, kernel, MmaArgs{row, k, c.data()});
        for (int i = 0; i < 16 * 8; ++i) {
          const int expected = i / 8 == row ? 1 + k * 8 + i % 8 : 1;
          ASSERT_EQ(c[static_cast<size_t>(i)], static_cast<float>(expected));
        }
      }
    }
  }
}

// `c` and up to 16 numbers, in the order in which a tensor core is given them.
float SumInTensorCore(float c, const std::vector<double>& numbers) {
  double a[emulator::kTensorRows][emulator::kTensorDepth] = {};
  double b[emulator::kTensorDepth][emulator::kTensorCols] = {};
  float sums[emulator::kTensorRows][emulator::kTensorCols] = {};
  std::ranges::copy(numbers, a[5]);
  for (auto& row : b) row[3] = 1;
  sums[5][3] = c;
  emulator::MultiplyInTensorCore(sums, a, b);
  return sums[5][3];
}

TEST(Emulator, ATensorCoreCutsOffInsteadOfRounding) {
  constexpr double kUlp = 0x1p-23;
  EXPECT_EQ(SumInTensorCore(1, {0.75 * kUlp}), 1);
  EXPECT_EQ(SumInTensorCore(-1, {-0.75 * kUlp}), -1);
  EXPECT_EQ(SumInTensorCore(1, {0.5 * kUlp, 0.5 * kUlp}), 1 + 0x1p-23f);
  // Below the last bit that is kept of the largest addend, each is nothing.
  EXPECT_EQ(SumInTensorCore(1, {kUlp / 4, kUlp / 4, kUlp / 4, kUlp / 4, kUlp / 4}), 1);
  // What is left of a difference is exact.
  EXPECT_EQ(SumInTensorCore(1, {-1, 3}), 3);
  EXPECT_EQ(SumInTensorCore(0, {}), 0);
  EXPECT_TRUE(std::isinf(SumInTensorCore(INFINITY, {1, 2})));
  EXPECT_TRUE(std::isnan(SumInTensorCore(NAN, {1, 2})));
  EXPECT_TRUE(std::isnan(SumInTensorCore(1, {INFINITY, -INFINITY})));
  // Eight at once, then the other eight.
  EXPECT_EQ(SumInTensorCore(0, {1, 0, 0, 0, 0, 0, 0, 0, kUlp / 4, -1}), 0);
  EXPECT_EQ(SumInTensorCore(0, {1, -1, 0, 0, 0, 0, 0, 0, kUlp / 4}), kUlp / 4);
}

using EmulatorDeathTest = ::testing::Test;

TEST(EmulatorDeathTest, ABarrierThatSomeThreadsNeverReachEndsTheProgram) {
  const auto kernel = [](const int) {
    if (ThreadIdx() < 40) SyncThreads();
  };
  EXPECT_DEATH(RunKernel<int>(Order::kForward, {1, 64, 0}, kernel, 0),
               "block 0: threads wait for others that will not come: 0-39 in a barrier of the "
               "block 40-63 returned");
}

TEST(EmulatorDeathTest, LanesInDifferentInstructionsEndTheProgram) {
  const auto kernel = [](const int) {
    if (ThreadIdx() < 16) {
      ShuffleXor(0, 1);
    } else {
      float c[4] = {};
      const uint32_t a[4] = {}, b[2] = {};
      MmaBf16(c, a, b);
    }
  };
  EXPECT_DEATH(RunKernel<int>(Order::kForward, {1, 32, 0}, kernel, 0),
               "thread 16 is in mma, others of its warp in shuffle");
}

TEST(EmulatorDeathTest, AThreadThatDoesNotWaitForItsCopiesEndsTheProgram) {
  const auto kernel = [](const Vector16* const from) {
    CopyAsync16(SharedMemory<Vector16>() + ThreadIdx(), from, true);
    CommitCopies();
  };
  const Vector16 from = {};
  EXPECT_DEATH(
      RunKernel<const Vector16*>(Order::kForward, {1, 32, 32 * sizeof(Vector16)}, kernel, &from),
      "a thread ended with copies under way");
}

#if ARIL_ASAN
TEST(EmulatorDeathTest, WritingBehindSharedMemoryIsSeenByAsan) {
  const auto kernel = [](const int) { SharedMemory<float>()[ThreadIdx()] = 1; };
  EXPECT_DEATH(RunKernel<int>(Order::kForward, {1, 32, 31 * sizeof(float)}, kernel, 0),
               "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace aril::kernels::emulated

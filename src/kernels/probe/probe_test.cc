#include "kernels/probe/probe.h"

#include <cstring>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/cpu/kernel_table.h"
#include "tensor/buffer.h"

namespace aril::kernels {
namespace {

TEST(Probe, EveryInstructionSetHasItsArithmetic) {
  ThreadPool threads(1);
  for (const Isa isa : AvailableIsas()) {
    CpuContext context(threads, isa);
    const bool has_short_types = isa == Isa::kAvx512 || isa == Isa::kAmx;
    for (const auto& [loop, is_there] : {std::pair(context.kernels().arithmetic_f32, true),
                                         {context.kernels().arithmetic_bf16, has_short_types},
                                         {context.kernels().arithmetic_int8, has_short_types}}) {
      ASSERT_EQ(loop.run != nullptr, is_there) << isa;
      if (!is_there) continue;
      EXPECT_GT(loop.operations, 0) << isa;
      loop.run(1, 1e-9f);
    }
  }
}

TEST(Probe, CountsTheOperationsOfAllThreads) {
  ThreadPool one(1), two(2);
  CpuContext alone(one, Isa::kPortable), shared(two, Isa::kPortable);
  const double operations = RunArithmetic(alone, Arithmetic::kF32);
  EXPECT_GT(operations, 0);
  EXPECT_EQ(RunArithmetic(shared, Arithmetic::kF32), 2 * operations);
  EXPECT_EQ(RunArithmetic(alone, Arithmetic::kBF16), 0) << "there is no instruction for it";
}

// That it reads, and nothing else, is for the sanitizers to see.
TEST(Probe, ReadsMemory) {
  ThreadPool threads(2);
  Buffer buffer(size_t{3} << 20);
  std::memset(buffer.data(), 1, buffer.size_bytes());
  for (const Isa isa : AvailableIsas()) {
    CpuContext context(threads, isa);
    ReadMemory(context, {buffer.data(), buffer.size_bytes()});
  }
}

}  // namespace
}  // namespace aril::kernels

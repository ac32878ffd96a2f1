#include "kernels/probe/probe.h"

#include <cstring>

#include "gtest/gtest.h"
#include "tensor/buffer.h"

namespace aril::kernels {
namespace {

TEST(Probe, EveryInstructionSetHasItsArithmetic) {
  ThreadPool threads(2);
  for (const Isa isa : AvailableIsas()) {
    CpuContext context(threads, isa);
    const bool has_short_types = isa == Isa::kAvx512 || isa == Isa::kAmx;
    EXPECT_GT(RunArithmetic(context, Arithmetic::kF32), 0) << isa;
    EXPECT_EQ(RunArithmetic(context, Arithmetic::kBF16) > 0, has_short_types) << isa;
    EXPECT_EQ(RunArithmetic(context, Arithmetic::kInt8) > 0, has_short_types) << isa;
  }
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

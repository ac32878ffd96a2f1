#include "kernels/probe/probe.h"

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;
// Some 10 µs: pieces so small that threads finish together, and so many that they take
// milliseconds.
constexpr int64_t kRounds = 2000;
constexpr int64_t kPiecesPerThread = 200;

// Where results go that nobody wants: the compiler must not see that.
template <typename T>
void Use(T value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

const ArithmeticLoop& LoopOf(const CpuKernels& kernels, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kF32:
      return kernels.arithmetic_f32;
    case Arithmetic::kBF16:
      return kernels.arithmetic_bf16;
    case Arithmetic::kInt8:
      break;
  }
  return kernels.arithmetic_int8;
}

}  // namespace

void ReadMemory(CpuContext& context, std::span<const std::byte> bytes) {
  const auto pieces = static_cast<int64_t>(bytes.size() / kReadBytes);
  context.threads().ParallelFor(pieces, [&](int64_t piece) {
    Use(context.kernels().read_bytes(bytes.data() + static_cast<size_t>(piece) * kReadBytes,
                                     kReadBytes));
  });
}

double RunArithmetic(CpuContext& context, Arithmetic arithmetic) {
  const ArithmeticLoop& loop = LoopOf(context.kernels(), arithmetic);
  if (loop.run == nullptr) return 0;
  const int64_t pieces = kPiecesPerThread * context.threads().num_threads();
  context.threads().ParallelFor(pieces, [&](int64_t) {
    const float result = loop.run(kRounds, 1e-9f);
    Use(&result);
  });
  return static_cast<double>(pieces) * static_cast<double>(kRounds) *
         static_cast<double>(loop.operations);
}

}  // namespace aril::kernels

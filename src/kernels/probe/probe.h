// Work whose time says what a machine can do at best: reading memory, and arithmetic on registers
// alone. What a kernel reaches is judged by these.

#ifndef ARIL_KERNELS_PROBE_PROBE_H_
#define ARIL_KERNELS_PROBE_PROBE_H_

#include <cstddef>
#include <span>

#include "kernels/cpu/context.h"

namespace aril::kernels {

// Multiply-adds: of floats; of BF16 pairs into float; of 8-bit integers into 32 bits.
enum class Arithmetic { kF32, kBF16, kInt8 };

// Reads all of `bytes` once, on all threads, in pieces of 1 MiB.
void ReadMemory(CpuContext& context, std::span<const std::byte> bytes);

// Does some milliseconds of the best instruction that the context's instruction set has for it, on
// all threads. Returns the number of multiplications and additions done; 0 if it has none.
double RunArithmetic(CpuContext& context, Arithmetic arithmetic);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_PROBE_PROBE_H_

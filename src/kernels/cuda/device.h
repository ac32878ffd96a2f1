// What CUDA kernels are written with: the few things that only a device has, behind functions, so
// that the same .cu source runs on the host in the emulator. Only .cu files include this.
//
// Everything is in a namespace that says for what it was compiled, `cuda` or `emulated`, as each
// CPU instruction set has its own: both may be in one program.
//
// Copies into shared memory run beside the threads that ask for them: those that a thread has asked
// for since its last CommitCopies are a group, and WaitForCopies waits for the thread's own groups,
// so that others' need a barrier behind it.
//
// Matrix instructions: the PTX manual's "Matrix Fragments for mma.m16n8k16 with floating point
// type". With g = lane / 4 and t = lane % 4, and two elements in a register, the lower index in the
// lower half:
//   A [16, 16]: a[0] = (row g, cols 2t, 2t+1), a[1] = (g + 8, 2t…), a[2] = (g, 2t + 8…), a[3] =
//   (g + 8, 2t + 8…) B [16, 8]: b[0] = (rows 2t, 2t+1, col g), b[1] = (rows 2t + 8…, col g) C [16,
//   8]: c[0], c[1] = (row g, cols 2t, 2t+1), c[2], c[3] = (row g + 8, …)

#ifndef ARIL_KERNELS_CUDA_DEVICE_H_
#define ARIL_KERNELS_CUDA_DEVICE_H_

#include <stdint.h>
#include <string.h>

#include <cstddef>

#include "kernels/cuda/context.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define ARIL_CUDA_TARGET cuda
#define ARIL_DEVICE __device__ __forceinline__
// Declares a kernel by the threads of its blocks, at most; and, if there is a second number, the
// blocks for which a multiprocessor must have enough registers at a time.
#define ARIL_KERNEL(...) __global__ void __launch_bounds__(__VA_ARGS__)
// A kernel's one parameter is read where the launch put it, not copied.
#define ARIL_PARAMETER const __grid_constant__
#else
#include "kernels/cuda/emulator.h"
#define ARIL_CUDA_TARGET emulated
#define ARIL_DEVICE inline
#define ARIL_KERNEL(...) void
#define ARIL_PARAMETER const
#endif

namespace aril::kernels::ARIL_CUDA_TARGET {

inline constexpr int kWarpSize = 32;

struct alignas(16) Vector16 {
  uint32_t words[4];
};

struct alignas(16) Float4 {
  float values[4];
};

// How a kernel is launched.
struct LaunchShape {
  int num_blocks;
  int num_threads;
  size_t shared_bytes;
};

// --- Threads ---

ARIL_DEVICE int ThreadIdx() {
#ifdef __CUDACC__
  return static_cast<int>(threadIdx.x);
#else
  return emulator::ThreadIdx();
#endif
}

ARIL_DEVICE int BlockIdx() {
#ifdef __CUDACC__
  return static_cast<int>(blockIdx.x);
#else
  return emulator::BlockIdx();
#endif
}

ARIL_DEVICE int GridDim() {
#ifdef __CUDACC__
  return static_cast<int>(gridDim.x);
#else
  return emulator::GridDim();
#endif
}

ARIL_DEVICE void SyncThreads() {
#ifdef __CUDACC__
  __syncthreads();
#else
  emulator::SyncThreads();
#endif
}

// A barrier of one warp's threads, for what they leave each other in shared memory.
ARIL_DEVICE void SyncWarp() {
#ifdef __CUDACC__
  __syncwarp();
#else
  emulator::WarpCollective("a barrier of the warp", nullptr, [](emulator::WarpSlots) {});
#endif
}

// For what a launch must not find: the device stops, and every later call says so.
ARIL_DEVICE void TrapUnless(bool condition, [[maybe_unused]] const char* what) {
  if (condition) return;
#ifdef __CUDACC__
  __trap();
#else
  emulator::Trap(what);
#endif
}

// The block's shared memory, of the size that the launch asked for.
template <typename T>
ARIL_DEVICE T* SharedMemory() {
#ifdef __CUDACC__
  extern __shared__ __align__(128) unsigned char shared_memory[];
  return reinterpret_cast<T*>(shared_memory);
#else
  return reinterpret_cast<T*>(emulator::SharedMemory());
#endif
}

// Waits until the kernels before this one in the stream are complete, and what they wrote is
// visible; then lets the next kernel start as soon as there is room for its blocks. Comes before
// the first access to what another kernel of the step writes, or reads before it is written here.
// Every block of every kernel calls it, whether it has work or not: the next kernel relies on that.
ARIL_DEVICE void FollowPreviousKernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// --- Bits ---

template <typename To, typename From>
ARIL_DEVICE To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

ARIL_DEVICE bool IsAligned16(const void* p) { return (reinterpret_cast<uintptr_t>(p) & 15) == 0; }

// The lower (upper) halves of two words, `first` below.
ARIL_DEVICE uint32_t LowerHalves(uint32_t first, uint32_t second) {
#ifdef __CUDACC__
  return __byte_perm(first, second, 0x5410);
#else
  return (first & 0xFFFF) | second << 16;
#endif
}
ARIL_DEVICE uint32_t UpperHalves(uint32_t first, uint32_t second) {
#ifdef __CUDACC__
  return __byte_perm(first, second, 0x7632);
#else
  return first >> 16 | (second & 0xFFFF0000u);
#endif
}

ARIL_DEVICE float F16ToFloat(uint16_t bits) {
#ifdef __CUDACC__
  return __half2float(__ushort_as_half(bits));
#else
  return emulator::F16ToFloat(bits);
#endif
}

// To nearest, ties to even.
ARIL_DEVICE uint16_t FloatToF16(float value) {
#ifdef __CUDACC__
  return __half_as_ushort(__float2half_rn(value));
#else
  return emulator::FloatToF16(value);
#endif
}

// Two floats as BF16 (F16), to nearest with ties to even, `first` in the lower half.
ARIL_DEVICE uint32_t PackBf16(float first, float second) {
#ifdef __CUDACC__
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return emulator::FloatToBf16(first) | static_cast<uint32_t>(emulator::FloatToBf16(second)) << 16;
#endif
}
ARIL_DEVICE uint32_t PackF16(float first, float second) {
#ifdef __CUDACC__
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return emulator::FloatToF16(first) | static_cast<uint32_t>(emulator::FloatToF16(second)) << 16;
#endif
}

ARIL_DEVICE float MultiplyAdd(float a, float b, float c) {
#ifdef __CUDACC__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

// --- Memory ---

// 16 bytes of weights, which the grid never writes and reads once: they pass L1 by, and come into
// L2 with their neighbours, which another load is about to ask for. Not ld.global.nc, although it
// may be: ptxas then moves loads that stand before FollowPreviousKernel behind it (of a shrink's 16
// it left 7), where they no longer overlap with the kernel before.
ARIL_DEVICE Vector16 LoadWeights16(const void* p) {
#ifdef __CUDACC__
  Vector16 v;
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "l"(p));
  return v;
#else
  return *static_cast<const Vector16*>(p);
#endif
}

ARIL_DEVICE Vector16 Load16(const void* p) { return *static_cast<const Vector16*>(p); }

// Copies 16 bytes to shared memory; zeros, and nothing is read, if not `present`. Both addresses
// are aligned.
ARIL_DEVICE void CopyAsync16(void* to, const void* from, bool present) {
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(from),
                 "r"(present ? 16 : 0)
               : "memory");
#else
  emulator::CopyAsync16(to, present ? from : nullptr);
#endif
}

ARIL_DEVICE void CommitCopies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulator::CommitCopies();
#endif
}

// Waits for all of this thread's groups but the newest `kNewest`.
template <int kNewest>
ARIL_DEVICE void WaitForCopies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
#else
  emulator::WaitForCopies(kNewest);
#endif
}

// Adds to what other threads of the block add to as well, in shared memory.
ARIL_DEVICE void AtomicAdd(uint32_t* to, uint32_t value) {
#ifdef __CUDACC__
  atomicAdd(to, value);
#else
  *to += value;
#endif
}

// --- Instructions of a whole warp: all its lanes must take part ---

// The value, of 4 bytes, of the lane whose number differs in the bits of `mask`.
template <typename T>
ARIL_DEVICE T ShuffleXor(T value, int mask) {
  static_assert(sizeof(T) == 4);
#ifdef __CUDACC__
  return __shfl_xor_sync(0xFFFFFFFFu, value, mask);
#else
  struct Slot {
    T value;
    int mask;
  } slot{value, mask};
  emulator::WarpCollective("shuffle", &slot, [](emulator::WarpSlots slots) {
    T values[kWarpSize];
    for (int i = 0; i < kWarpSize; ++i) values[i] = static_cast<const Slot*>(slots[i])->value;
    for (int i = 0; i < kWarpSize; ++i) {
      Slot* of_lane = static_cast<Slot*>(slots[i]);
      of_lane->value = values[i ^ of_lane->mask];
    }
  });
  return slot.value;
#endif
}

// Whether it holds for any lane.
ARIL_DEVICE bool AnyInWarp(bool condition) {
#ifdef __CUDACC__
  return __any_sync(0xFFFFFFFFu, condition) != 0;
#else
  emulator::WarpCollective("a vote", &condition, [](emulator::WarpSlots slots) {
    bool any = false;
    for (void* slot : slots) any = any || *static_cast<const bool*>(slot);
    for (void* slot : slots) *static_cast<bool*>(slot) = any;
  });
  return condition;
#endif
}

#ifndef __CUDACC__
template <bool kTransposed>
void EmulateLoadMatrices(const void* row, uint32_t (&m)[4]) {
  struct Slot {
    const void* row;
    uint32_t (&m)[4];
  } slot{row, m};
  emulator::WarpCollective("ldmatrix", &slot, [](emulator::WarpSlots slots) {
    for (int i = 0; i < 4; ++i) {
      uint16_t elements[8][8];
      for (int r = 0; r < 8; ++r) {
        const Vector16 of_row = Load16(static_cast<const Slot*>(slots[8 * i + r])->row);
        memcpy(elements[r], of_row.words, sizeof(of_row));
      }
      for (int lane = 0; lane < kWarpSize; ++lane) {
        const int g = lane / 4, t = lane % 4;
        const uint32_t low = kTransposed ? elements[2 * t][g] : elements[g][2 * t];
        const uint32_t high = kTransposed ? elements[2 * t + 1][g] : elements[g][2 * t + 1];
        static_cast<const Slot*>(slots[lane])->m[i] = low | high << 16;
      }
    }
  });
}
#endif

// Four matrices [8, 8] of elements of 2 bytes from shared memory: lane 8i + r has the address of
// row r of matrix i, 16 bytes and aligned. m[i] = (row g, cols 2t, 2t+1) of matrix i.
ARIL_DEVICE void LoadMatrices(const void* row, uint32_t (&m)[4]) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row))));
#else
  EmulateLoadMatrices<false>(row, m);
#endif
}

// m[i] = (rows 2t, 2t+1, col g) of matrix i.
ARIL_DEVICE void LoadMatricesTransposed(const void* row, uint32_t (&m)[4]) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row))));
#else
  EmulateLoadMatrices<true>(row, m);
#endif
}

// c [16, 8] fp32 += a [16, 16] · b [16, 8] in BF16.
ARIL_DEVICE void MmaBf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulator::MmaOperands operands{c, a, b};
  emulator::WarpCollective("mma", &operands, emulator::MmaBf16);
#endif
}

// The same in F16.
ARIL_DEVICE void MmaF16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulator::MmaOperands operands{c, a, b};
  emulator::WarpCollective("mma", &operands, emulator::MmaF16);
#endif
}

// --- Launching, on the host ---

// The only place where a kernel is launched. Returns the CUDA error, 0 if there is none; as always
// with CUDA, an error inside the kernel comes out of a later call.
template <typename Args>
int LaunchKernel(const CudaContext& context, const LaunchShape& shape, void (*kernel)(Args),
                 const Args& args) {
#ifdef __CUDACC__
  constexpr size_t kWithoutAsking = 48 << 10;
  if (shape.shared_bytes > kWithoutAsking) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
    if (error != cudaSuccess) return static_cast<int>(error);
  }
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.num_blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.num_threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(context.stream);
  config.attrs = &overlap;
  config.numAttrs = context.overlap ? 1 : 0;
  return static_cast<int>(cudaLaunchKernelEx(&config, kernel, args));
#else
  emulator::Launch(*static_cast<const emulator::Stream*>(context.stream),
                   {shape.num_blocks, shape.num_threads, shape.shared_bytes},
                   [kernel, args] { kernel(args); });
  return 0;
#endif
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_CUDA_DEVICE_H_

// Runs the CUDA kernels on the host: each thread of a block is a fiber, and what a kernel asks of
// the hardware (kernels/cuda/device.h) is done here by its definition in the PTX manual.
//
// It is there for tests, and finds what a device would answer with a wrong number now and then:
// - shared memory has exactly the size that the launch gave it, for ASan, and begins as NaNs;
// - threads run one after the other from one synchronization to the next, forward or backward
//   (Order), and so do blocks: a missing barrier changes the result between the two;
// - copies into shared memory arrive as soon as they are asked for in the one order of the threads,
//   and as late as they may in the other;
// - a barrier or a warp's instruction that some thread never reaches ends the program, saying who
//   waits where.
//
// It says nothing about time, or about the memory model between blocks that run at the same time.

#ifndef ARIL_KERNELS_CUDA_EMULATOR_H_
#define ARIL_KERNELS_CUDA_EMULATOR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace aril::kernels::emulator {

inline constexpr int kWarpSize = 32;

enum class Order { kForward, kBackward };

// Calls without their arguments: these are in them.
using Work = std::vector<std::function<void()>>;

struct Stream {
  Order order = Order::kForward;
  Work* later = nullptr;  // not null: what is launched is put there instead of run
};

struct Grid {
  int num_blocks = 0;
  int num_threads = 0;  // of a block: a multiple of kWarpSize, at most 1024
  size_t shared_bytes = 0;
};

// Runs `body` as every thread of every block of `grid`, and returns when all have returned; or puts
// that off. Not from inside a kernel.
void Launch(const Stream& stream, const Grid& grid, const std::function<void()>& body);

// The functions below are for kernels, inside `body`.

int ThreadIdx();
int BlockIdx();
int GridDim();
// The block's shared memory, aligned to 128 bytes.
std::byte* SharedMemory();
void SyncThreads();
// A copy of 16 bytes, or of zeros from null; the end of a group of them; and a wait for all groups
// of this thread but the newest ones. A thread that ends must have waited for all.
void CopyAsync16(void* to, const void* from);
void CommitCopies();
void WaitForCopies(int newest);
// Ends the program, saying what was expected.
[[noreturn]] void Trap(const char* what);

// An instruction that all lanes of a warp execute together. Each lane passes the address of its
// operands; once all 32 have, `combine` sees them all, lane by lane, and may write to them.
using WarpSlots = void* const (&)[kWarpSize];
void WarpCollective(const char* name, void* slot, void (*combine)(WarpSlots slots));

// c [16, 8] += a [16, 16] · b [16, 8] as tensor cores do it, whose products of 16-bit floats are
// exact: to each of c, eight products are added at once, and then the other eight. Nothing is
// rounded, but cut off. The nine addends are aligned to the largest one, 25 bits of which are kept,
// and the sum's lower bits are cut off, too. So A100s were found to do (M. Fasi et al., "Numerical
// behavior of NVIDIA tensor cores", PeerJ Computer Science 7, 2021; newer ones keep more).
inline constexpr int kTensorRows = 16, kTensorCols = 8, kTensorDepth = 16;
void MultiplyInTensorCore(float (&c)[kTensorRows][kTensorCols],
                          const double (&a)[kTensorRows][kTensorDepth],
                          const double (&b)[kTensorDepth][kTensorCols]);

// For WarpCollective: c += a · b of a warp, by the layouts of MmaBf16 in kernels/cuda/device.h.
struct MmaOperands {
  float (&c)[4];
  const uint32_t (&a)[4];
  const uint32_t (&b)[2];
};
void MmaBf16(WarpSlots operands);
void MmaF16(WarpSlots operands);

// Conversions of elements, as ToFloat, ToF16 and ToBF16 of tensor/dtype.h.
inline float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
float F16ToFloat(uint16_t bits);
uint16_t FloatToF16(float value);
uint16_t FloatToBf16(float value);

}  // namespace aril::kernels::emulator

#endif  // ARIL_KERNELS_CUDA_EMULATOR_H_

// How rows of operands lie in shared memory while they are multiplied. Only .cu files include this.

#ifndef ARIL_KERNELS_GEMM_STAGE_CUDA_H_
#define ARIL_KERNELS_GEMM_STAGE_CUDA_H_

#include "kernels/cuda/device.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

constexpr int kStageUnits = 8;  // of a row: 16 bytes, eight elements

// Where a stage has unit `unit` of a row: such that no two of the eight lanes that read at once,
// four units of two rows, share a bank.
ARIL_DEVICE int VectorAt(int row, int unit) { return row * kStageUnits + (unit ^ (row & 1) << 2); }

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_GEMM_STAGE_CUDA_H_

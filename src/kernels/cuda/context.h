// What every launch of a CUDA kernel takes, on a device and in the emulator alike.

#ifndef ARIL_KERNELS_CUDA_CONTEXT_H_
#define ARIL_KERNELS_CUDA_CONTEXT_H_

namespace aril::kernels {

struct CudaContext {
  // A cudaStream_t on a device; a const emulator::Stream in the emulator. Kernels run in its order.
  void* stream = nullptr;
  // The multiprocessors of the device: grids of the LoRA operator are a few blocks for each,
  // whatever the batch, so that a captured graph serves every batch.
  int num_multiprocessors = 1;
  // Kernels may start before the previous one of the stream has ended (programmatic dependent
  // launch, for code of sm_90 and newer); every kernel of ours waits for it before it touches what
  // that wrote.
  bool overlap = false;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CUDA_CONTEXT_H_

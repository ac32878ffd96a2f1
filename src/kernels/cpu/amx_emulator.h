// Executes AMX instructions where the processor has none: each raises SIGILL there, and a handler
// does what the Intel SDM (volume 2, and volume 1, chapter 18) says of it, on tiles of the thread.
// So the very code that runs on a processor with AMX is tested on any with AVX-512.
//
// For tests: in a program that links aril_amx_emulator, AvailableIsas() has Isa::kAmx wherever it
// has Isa::kAvx512. A processor that has AMX runs the instructions itself.
//
// What the processor would refuse ends the program, saying why: tiles that are not configured, or
// whose sizes do not fit. Under ASan each row of a tile that is loaded or stored is checked as any
// other access. An instruction takes some microseconds: this says nothing about time.

#ifndef ARIL_KERNELS_CPU_AMX_EMULATOR_H_
#define ARIL_KERNELS_CPU_AMX_EMULATOR_H_

namespace aril::kernels {

// Called where the processor has the rest of Isa::kAmx but no tiles: whether the program runs them
// all the same. False in programs that the emulator is not linked to; else the handler is installed
// when this returns. Thread-safe.
bool EmulateAmx();

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CPU_AMX_EMULATOR_H_

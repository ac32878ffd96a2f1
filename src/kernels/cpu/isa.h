// The instruction sets that CPU kernels are compiled for. Each is its own numeric class: results
// are bitwise reproducible within one, and agree to rounding between them.

#ifndef ARIL_KERNELS_CPU_ISA_H_
#define ARIL_KERNELS_CPU_ISA_H_

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace aril::kernels {

enum class Isa { kPortable, kAvx2, kAvx512, kAmx };

// "portable", "avx2" (AVX2 and FMA), "avx512" (AVX-512 F, BW, DQ, VL, VNNI and BF16), "amx" (that,
// with AMX tiles of BF16 and of bytes for matrix products).
std::string_view Name(Isa isa);
std::optional<Isa> IsaFromName(std::string_view name);
std::ostream& operator<<(std::ostream& out, Isa isa);

// What this processor runs, from kPortable to the best. Asks the operating system for the use of
// AMX tiles.
std::vector<Isa> AvailableIsas();

// The one that `--isa NAME` asks for; the best for "auto". InvalidArgument if this processor does
// not run it.
StatusOr<Isa> ChooseIsa(const std::string& name);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CPU_ISA_H_

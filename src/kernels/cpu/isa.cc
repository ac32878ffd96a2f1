#include "kernels/cpu/isa.h"

#include <algorithm>

#include "base/strings.h"
#include "kernels/cpu/amx_emulator.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace aril::kernels {

#if defined(__x86_64__)
__attribute__((weak)) bool EmulateAmx() { return false; }  // the emulator's comes before it

namespace {

// The processor has AMX tiles, BF16 and byte products (CPUID leaf 7, EDX bits 24, 22 and 25), and
// Linux lets this process use the tiles, which its default register state leaves out
// (Documentation/arch/x86/xstate.rst).
bool CanUseAmx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kAmxInt8 = 1u << 25;
  constexpr unsigned kNeeded = kAmxBf16 | kAmxTile | kAmxInt8;
  if ((edx & kNeeded) != kNeeded) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace
#endif

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "";
}

std::optional<Isa> IsaFromName(std::string_view name) {
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (Name(isa) == name) return isa;
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& out, Isa isa) { return out << Name(isa); }

std::vector<Isa> AvailableIsas() {
  std::vector<Isa> isas = {Isa::kPortable};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    isas.push_back(Isa::kAvx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16")) {
      isas.push_back(Isa::kAvx512);
      if (CanUseAmx() || EmulateAmx()) isas.push_back(Isa::kAmx);
    }
  }
#endif
  return isas;
}

StatusOr<Isa> ChooseIsa(const std::string& name) {
  const std::vector<Isa> available = AvailableIsas();
  if (name == "auto") return available.back();
  const auto isa = IsaFromName(name);
  if (!isa.has_value() || std::find(available.begin(), available.end(), *isa) == available.end()) {
    return InvalidArgument(StrCat("--isa ", name, ": this processor runs ", Join(available, ", "),
                                  "; name one of them, or auto"));
  }
  return *isa;
}

}  // namespace aril::kernels

#include "kernels/cpu/amx_emulator.h"

#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace aril::kernels {
namespace {

constexpr int kTiles = 8;
constexpr int kMaxRows = 16;
constexpr int kMaxRowBytes = 64;
constexpr int kMaxDwords = kMaxRowBytes / 4;

// Nothing here allocates or locks: it runs in a signal handler.
[[noreturn]] void Refuse(const char* what, int tile) {
  std::fprintf(stderr, "AMX: %s (tile %d)\n", what, tile);
  std::abort();
}

struct Tile {
  int rows = 0;  // 0: not configured
  int row_bytes = 0;
  alignas(64) uint32_t data[kMaxRows][kMaxDwords] = {};  // what is not of the tile is zero

  int Dwords() const { return row_bytes / 4; }
};

thread_local std::array<Tile, kTiles> tiles;

Tile& Configured(int tile) {
  if (tile >= kTiles) Refuse("there is no such tile", tile);
  if (tiles[tile].rows == 0) Refuse("is not configured", tile);
  return tiles[tile];
}

// An instruction of opcode map 0F38 with a VEX prefix, which all of AMX has (SDM volume 2, 2.3).
class Instruction {
 public:
  enum Prefix { kNone, k66, kF3, kF2 };

  Instruction(const uint8_t* code, const greg_t* registers) : code_(code), registers_(registers) {}

  bool IsAmx() const {
    const bool is_map_0f38 = code_[0] == 0xC4 && (code_[1] & 0x1F) == 2;
    const bool is_w0_l0 = (code_[2] & 0x84) == 0;
    return is_map_0f38 && is_w0_l0;
  }

  Prefix prefix() const { return static_cast<Prefix>(code_[2] & 3); }
  uint8_t opcode() const { return code_[3]; }
  bool HasMemory() const { return Mod() != 3; }
  int Reg() const { return (code_[4] >> 3 & 7) | (code_[1] & 0x80 ? 0 : 8); }
  int Rm() const { return (code_[4] & 7) | (code_[1] & 0x20 ? 0 : 8); }
  int Vvvv() const { return ~code_[2] >> 3 & 15; }

  int64_t Size() const { return 5 + (HasSib() ? 1 : 0) + DisplacementBytes(); }

  // Of memory operands: where they begin, for tiles without the index register.
  std::byte* Base() const {
    const int64_t displacement = Displacement();
    if (IsRipRelative()) return At(reinterpret_cast<int64_t>(code_) + Size() + displacement);
    if (HasSib() && (code_[5] & 7) == 5 && Mod() == 0) return At(displacement);
    const int base = HasSib() ? (code_[5] & 7) | (code_[1] & 0x20 ? 0 : 8) : Rm();
    return At(Register(base) + displacement);
  }

  // What is between the rows of a tile in memory: the index register, scaled.
  int64_t Stride() const {
    if (!HasSib()) Refuse("is loaded without a stride", Reg());
    const int index = (code_[5] >> 3 & 7) | (code_[1] & 0x40 ? 0 : 8);
    constexpr int kNoIndex = 4;
    return index == kNoIndex ? 0 : Register(index) * (1 << (code_[5] >> 6));
  }

 private:
  static std::byte* At(int64_t address) { return reinterpret_cast<std::byte*>(address); }

  int Mod() const { return code_[4] >> 6; }
  bool HasSib() const { return HasMemory() && (code_[4] & 7) == 4; }
  bool IsRipRelative() const { return Mod() == 0 && (code_[4] & 7) == 5; }

  int DisplacementBytes() const {
    if (Mod() == 1) return 1;
    const bool has_no_base = HasSib() && Mod() == 0 && (code_[5] & 7) == 5;
    return Mod() == 2 || IsRipRelative() || has_no_base ? 4 : 0;
  }

  int64_t Displacement() const {
    const uint8_t* at = code_ + 5 + (HasSib() ? 1 : 0);
    if (DisplacementBytes() == 0) return 0;
    if (DisplacementBytes() == 1) return static_cast<int8_t>(*at);
    int32_t displacement = 0;
    std::memcpy(&displacement, at, sizeof(displacement));
    return displacement;
  }

  int64_t Register(int number) const {
    constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15};
    return registers_[kOrder[number]];
  }

  const uint8_t* code_;
  const greg_t* registers_;
};

// LDTILECFG with palette 1: volume 1, table 18-2.
void Configure(const std::byte* memory) {
  std::array<uint8_t, 64> bytes;
  std::memcpy(bytes.data(), memory, bytes.size());
  const auto [palette, start_row] = std::array{bytes[0], bytes[1]};
  if (palette > 1 || start_row != 0)
    Refuse("configured with a palette or a row that is unknown", 0);
  for (int i = 0; i < kTiles; ++i) {
    const int row_bytes = bytes[16 + 2 * i] | bytes[17 + 2 * i] << 8, rows = bytes[48 + i];
    if (row_bytes > kMaxRowBytes || row_bytes % 4 != 0 || rows > kMaxRows ||
        (row_bytes == 0) != (rows == 0)) {
      Refuse("has a size that no tile can have", i);
    }
    tiles[i] = palette == 0 ? Tile{} : Tile{.rows = rows, .row_bytes = row_bytes};
  }
}

void Clear(Tile& tile) { std::memset(tile.data, 0, sizeof(tile.data)); }

void Load(const Instruction& instruction) {
  Tile& tile = Configured(instruction.Reg());
  const std::byte* row = instruction.Base();
  Clear(tile);
  for (int i = 0; i < tile.rows; ++i, row += instruction.Stride()) {
    std::memcpy(tile.data[i], row, static_cast<size_t>(tile.row_bytes));
  }
}

void Store(const Instruction& instruction) {
  const Tile& tile = Configured(instruction.Reg());
  std::byte* row = instruction.Base();
  for (int i = 0; i < tile.rows; ++i, row += instruction.Stride()) {
    std::memcpy(row, tile.data[i], static_cast<size_t>(tile.row_bytes));
  }
}

struct Operands {
  Tile& sum;
  const Tile& a;
  const Tile& b;
};

// sum [M, N] += a [M, K] · b [K, N], in dwords.
Operands OperandsOf(const Instruction& instruction) {
  Tile& sum = Configured(instruction.Reg());
  const Tile& a = Configured(instruction.Rm());
  const Tile& b = Configured(instruction.Vvvv());
  if (&sum == &a || &sum == &b || &a == &b) {
    Refuse("is two operands of a product", instruction.Reg());
  }
  if (a.rows != sum.rows || b.row_bytes != sum.row_bytes || a.Dwords() != b.rows) {
    Refuse("does not have the sizes of its product", instruction.Reg());
  }
  return {sum, a, b};
}

// TDPBF16PS: even elements and odd ones are each summed over K with fused multiply-adds, and then
// added; what is too small for a normal number is zero, and nothing raises an exception.
__attribute__((target("avx512f"))) void MultiplyBf16(const Operands& operands) {
  constexpr unsigned kDenormalsAreZero = 0x0040, kFlushToZero = 0x8000, kMasked = 0x1F80;
  const unsigned control = _mm_getcsr();
  _mm_setcsr(kMasked | kDenormalsAreZero | kFlushToZero);
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
  for (int m = 0; m < operands.sum.rows; ++m) {
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (int k = 0; k < operands.a.Dwords(); ++k) {
      const __m512i a = _mm512_set1_epi32(static_cast<int>(operands.a.data[m][k]));
      const __m512i b = _mm512_load_si512(operands.b.data[k]);
      even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)),
                             _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)), even);
      odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a, high_half)),
                            _mm512_castsi512_ps(_mm512_and_si512(b, high_half)), odd);
    }
    void* sum = operands.sum.data[m];
    _mm512_store_ps(sum, _mm512_add_ps(_mm512_load_ps(sum), _mm512_add_ps(even, odd)));
  }
  _mm_setcsr(control);
}

// TDPBSSD and its kin: products of bytes, modulo 2^32.
template <typename A, typename B>
void MultiplyBytes(const Operands& operands) {
  auto& [sum, a, b] = operands;
  for (int m = 0; m < sum.rows; ++m) {
    for (int k = 0; k < a.Dwords(); ++k) {
      for (int n = 0; n < sum.Dwords(); ++n) {
        for (int byte = 0; byte < 4; ++byte) {
          const auto of_a = static_cast<A>(a.data[m][k] >> (8 * byte));
          const auto of_b = static_cast<B>(b.data[k][n] >> (8 * byte));
          sum.data[m][n] += static_cast<uint32_t>(of_a * of_b);
        }
      }
    }
  }
}

// Whether it was an instruction of AMX that is known here.
bool Execute(const Instruction& instruction) {
  using enum Instruction::Prefix;
  if (!instruction.IsAmx()) return false;
  const Instruction::Prefix prefix = instruction.prefix();
  switch (instruction.opcode()) {
    case 0x49:
      if (prefix == kNone && instruction.HasMemory()) {
        Configure(instruction.Base());  // LDTILECFG
      } else if (prefix == kNone) {
        tiles = {};  // TILERELEASE
      } else if (prefix == kF2 && !instruction.HasMemory()) {
        Clear(Configured(instruction.Reg()));  // TILEZERO
      } else {
        return false;
      }
      return true;
    case 0x4B:
      if (prefix == kNone || !instruction.HasMemory()) return false;
      prefix == kF3 ? Store(instruction)  // TILESTORED
                    : Load(instruction);  // TILELOADD, TILELOADDT1
      return true;
    case 0x5C:
      if (prefix != kF3 || instruction.HasMemory()) return false;
      MultiplyBf16(OperandsOf(instruction));
      return true;
    case 0x5E: {
      if (instruction.HasMemory()) return false;
      const Operands operands = OperandsOf(instruction);
      if (prefix == kF2) MultiplyBytes<int8_t, int8_t>(operands);      // TDPBSSD
      if (prefix == kF3) MultiplyBytes<int8_t, uint8_t>(operands);     // TDPBSUD
      if (prefix == k66) MultiplyBytes<uint8_t, int8_t>(operands);     // TDPBUSD
      if (prefix == kNone) MultiplyBytes<uint8_t, uint8_t>(operands);  // TDPBUUD
      return true;
    }
    default:
      return false;
  }
}

void HandleIllegalInstruction(int signal, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  const Instruction instruction(code, registers);
  if (Execute(instruction)) {
    registers[REG_RIP] += instruction.Size();
  } else {
    ::signal(signal, SIG_DFL);  // and raised again where it was
  }
}

}  // namespace

bool EmulateAmx() {
  static const bool is_installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = HandleIllegalInstruction;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGILL, &action, nullptr) == 0;
  }();
  return is_installed;
}

}  // namespace aril::kernels

// NF4, by which bitsandbytes rounds weights (Dettmers et al., QLoRA, 2023, section 3).

#ifndef ARIL_TENSOR_NF4_H_
#define ARIL_TENSOR_NF4_H_

#include <array>
#include <cstdint>
#include <span>

namespace aril {

// Quantiles of a normal distribution, of which 0 is one, between −1 and 1 (appendix E).
inline constexpr std::array<float, 16> kNf4 = {-1.0f,
                                               -0.6961928009986877f,
                                               -0.5250730514526367f,
                                               -0.39491748809814453f,
                                               -0.28444138169288635f,
                                               -0.18477343022823334f,
                                               -0.09105003625154495f,
                                               0.0f,
                                               0.07958029955625534f,
                                               0.16093020141124725f,
                                               0.24611230194568634f,
                                               0.33791524171829224f,
                                               0.44070982933044434f,
                                               0.5626170039176941f,
                                               0.7229568362236023f,
                                               1.0f};

// So many neighbours have a scale, by default.
inline constexpr int64_t kNf4BlockSize = 64;

// A block's scale: its largest magnitude.
float Nf4Scale(std::span<const float> block);

// Of each of a block's finite values the code of the nearest number, times the scale, as
// bitsandbytes finds it (backends/default/ops.py: quantize_4bit).
void RoundToNf4(std::span<const float> block, std::span<uint8_t> codes);

}  // namespace aril

#endif  // ARIL_TENSOR_NF4_H_

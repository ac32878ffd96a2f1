// Rotary embedding of one head in the "rotate half" convention of Hugging Face: element i pairs
// with i + head_dim / 2, or with less where only a part of the head is rotated.

#include "kernels/rope/rope_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

void Normalize(const RopeHead& head, float* x) {
  const float mean = SumOfSquares(head.in, head.head_dim) / (float)head.head_dim;
  const float scale = 1.0f / __builtin_sqrtf(mean + head.norm_eps);
  for (int64_t i = 0; i < head.head_dim; ++i) x[i] = head.in[i] * scale * head.norm_weight[i];
}

void Rotate(const float* in, const RopeHead& head, float* x) {
  const int64_t half = head.num_pairs;
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Vf a = Load(in + i);
    const Vf b = Load(in + half + i);
    const Vf cos = Load(head.cos + i);
    const Vf sin = Load(head.sin + i);
    Store(x + i, a * cos - b * sin);
    Store(x + half + i, b * cos + a * sin);
  }
  for (; i < half; ++i) {
    const float a = in[i];
    const float b = in[half + i];
    x[i] = a * head.cos[i] - b * head.sin[i];
    x[half + i] = b * head.cos[i] + a * head.sin[i];
  }
  for (i = 2 * half; i < head.head_dim; ++i) x[i] = in[i];
}

// The finished head, in `buffer` or still in head.in.
ARIL_INLINE const float* Compute(const RopeHead& head, float* buffer) {
  const float* x = head.in;
  if (head.norm_weight != nullptr) {
    Normalize(head, buffer);
    x = buffer;
  }
  if (head.cos != nullptr) {
    Rotate(x, head, buffer);
    x = buffer;
  }
  return x;
}

}  // namespace

void RopeHeadF32(const RopeHead& head) {
  alignas(64) float buffer[kMaxHeadDim];
  __builtin_memcpy(head.out, Compute(head, buffer), (size_t)head.head_dim * sizeof(float));
}

void RopeHeadBF16(const RopeHead& head) {
  alignas(64) float buffer[kMaxHeadDim];
  const float* x = Compute(head, buffer);
  uint16_t* out = static_cast<uint16_t*>(head.out);
  int64_t i = 0;
  for (; i + kLanes <= head.head_dim; i += kLanes) Store(out + i, Load(x + i));
  if (const int64_t n = head.head_dim - i; n > 0) StorePartial(out + i, LoadPartial(x + i, n), n);
}

}  // namespace aril::kernels::ARIL_ISA

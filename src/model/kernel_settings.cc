#include "model/kernel_settings.h"

#include <cmath>

#include "base/check.h"

namespace aril {

kernels::Activation ActivationOf(const ModelSpec& spec) {
  switch (spec.activation) {
    case MlpActivation::kSilu:
      return kernels::Activation::kSilu;
    case MlpActivation::kGeluTanh:
      return kernels::Activation::kGeluTanh;
    case MlpActivation::kClampedSwiglu:
      return kernels::Activation::kClampedSwiglu;
  }
  CHECK(false);
}

float EmbeddingScale(const ModelSpec& spec, DType dtype) {
  if (!spec.scaled_embedding) {
    return static_cast<float>(spec.embedding_multiplier / spec.residual_multiplier);
  }
  CHECK(spec.embedding_multiplier == 1 && spec.residual_multiplier == 1);
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  if (dtype == DType::kBF16) return ToFloat(ToBF16(scale));
  if (dtype == DType::kF16) return ToFloat(ToF16(scale));
  CHECK(dtype == DType::kF32);
  return scale;
}

float NormEps(const ModelSpec& spec) {
  CHECK(!spec.output_norms || spec.residual_multiplier == 1);
  return static_cast<float>(spec.rms_norm_eps /
                            (spec.residual_multiplier * spec.residual_multiplier));
}

kernels::DeltaShape DeltaShapeOf(const LinearAttentionSpec& linear) {
  return {.num_key_heads = linear.num_key_heads,
          .num_value_heads = linear.num_value_heads,
          .key_dim = linear.key_dim,
          .value_dim = linear.value_dim,
          .conv_size = linear.conv_size};
}

float ScoreScale(const ModelSpec& spec) { return static_cast<float>(spec.AttentionScale()); }

float ScoreSoftcap(const ModelSpec& spec) {
  return static_cast<float>(spec.attn_softcap.value_or(0));
}

}  // namespace aril

#include "model/kernel_settings.h"

#include "gtest/gtest.h"

namespace aril {
namespace {

// Gemma 3 1B: sqrt(1152) is 33.94, of which BF16 has 34 (transformers' embed_scale in the model's
// dtype).
TEST(KernelSettings, EmbeddingsAreScaledByANumberOfTheDType) {
  ModelSpec spec;
  spec.hidden_size = 1152;
  EXPECT_EQ(EmbeddingScale(spec, DType::kBF16), 1);
  spec.scaled_embedding = true;
  EXPECT_EQ(EmbeddingScale(spec, DType::kF32), 33.941125497f);
  EXPECT_EQ(EmbeddingScale(spec, DType::kBF16), 34);
  EXPECT_EQ(EmbeddingScale(spec, DType::kF16), 33.9375f);
}

// A stream that is divided by 0.25, so that nothing is multiplied by it.
TEST(KernelSettings, TheStreamIsDividedByItsMultiplier) {
  ModelSpec spec;
  spec.rms_norm_eps = 1e-5;
  EXPECT_EQ(NormEps(spec), 1e-5f);
  spec.embedding_multiplier = 12;
  spec.residual_multiplier = 0.25;
  EXPECT_EQ(EmbeddingScale(spec, DType::kBF16), 48);
  EXPECT_FLOAT_EQ(NormEps(spec), 16e-5f);
}

TEST(KernelSettings, ScoresAreScaledByTheirFieldOrByHeadDim) {
  ModelSpec spec;
  spec.head_dim = 64;
  EXPECT_EQ(ScoreScale(spec), 0.125f);
  EXPECT_EQ(ScoreSoftcap(spec), 0);
  spec.attention_multiplier = 0.0625;
  spec.attn_softcap = 50;
  EXPECT_EQ(ScoreScale(spec), 0.0625f);
  EXPECT_EQ(ScoreSoftcap(spec), 50);
}

}  // namespace
}  // namespace aril

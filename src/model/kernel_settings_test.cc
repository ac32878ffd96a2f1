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

TEST(KernelSettings, ScoresAreScaledByTheirFieldOrByHeadDim) {
  ModelSpec spec;
  spec.head_dim = 64;
  EXPECT_EQ(ScoreScale(spec), 0.125f);
  EXPECT_EQ(ScoreSoftcap(spec), 0);
  spec.query_pre_attn_scalar = 256;
  spec.attn_softcap = 50;
  EXPECT_EQ(ScoreScale(spec), 0.0625f);
  EXPECT_EQ(ScoreSoftcap(spec), 50);
}

}  // namespace
}  // namespace aril

#include "model/max_model_len.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

TEST(ChooseMaxModelLen, IsAtMostWhatTheModelHas) {
  ModelSpec spec{.max_position_embeddings = 4096};
  EXPECT_EQ(*ChooseMaxModelLen(std::nullopt, spec), 4096);
  EXPECT_EQ(*ChooseMaxModelLen(1, spec), 1);
  EXPECT_EQ(*ChooseMaxModelLen(4096, spec), 4096);
  EXPECT_THAT(Message(ChooseMaxModelLen(0, spec).status()),
              HasSubstr("--max-model-len is 0; it must be from 1 to 4096"));
  EXPECT_THAT(Message(ChooseMaxModelLen(4097, spec).status()),
              HasSubstr("4096, as many positions as the model has (max_position_embeddings)"));
  spec.rope.scaling = RopeSpec::Scaling::kLongRope;
  EXPECT_THAT(Message(ChooseMaxModelLen(4097, spec).status()),
              HasSubstr("4096, the model's original_max_position_embeddings: for longer"));
}

}  // namespace
}  // namespace aril

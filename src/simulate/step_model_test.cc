#include "simulate/step_model.h"

#include "gtest/gtest.h"

namespace aril::simulate {
namespace {

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// The figures that the defaults are said to be.
TEST(StepModelTest, DefaultsAreThoseOfAnA100) {
  const StepModel model;
  EXPECT_NEAR(Seconds(model.Step({.decodes = 1, .context_tokens = 128})), 0.011, 0.0005);
  EXPECT_NEAR(Seconds(model.Step({.decodes = 32, .context_tokens = 32 * 128})), 0.013, 0.002);
  EXPECT_NEAR(Seconds(model.Step({.decodes = 32, .context_tokens = 32 * 2048})), 0.034, 0.001);
}

TEST(StepModelTest, ReadsItsOwnJson) {
  StepModel model;
  model.base = 0.5;
  model.context_token = 1e-6;
  model.free_rows = 40;
  const auto read = ParseStepModel(model.ToJson().Dump());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->base, 0.5);
  EXPECT_EQ(read->context_token, 1e-6);
  EXPECT_EQ(read->free_rows, 40);
  EXPECT_EQ(ParseStepModel("{}")->base, StepModel().base);
}

TEST(StepModelTest, RefusesWhatIsNone) {
  for (const char* text :
       {"[]", "{\"bas\": 1}", "{\"base\": 0}", "{\"base\": -1}", "{\"base\": 1e99}",
        "{\"base\": \"1\"}", "{\"base\": 0.1", "", "{\"base\": 1, \"base\": 1}",
        "{\"load_byte\": 11}", "{\"free_rows\": -1}", "{\"free_rows\": 65537}"}) {
    EXPECT_EQ(ParseStepModel(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(StepModelTest, FreeRowsAreOfDecodesFirst) {
  StepModel model;
  model.free_rows = 40;
  EXPECT_EQ(model.PaidPrefillTokens({.prefill_tokens = 40}), 0);
  EXPECT_EQ(model.PaidPrefillTokens({.prefill_tokens = 100}), 60);
  EXPECT_EQ(model.PaidPrefillTokens({.prefill_tokens = 100, .decodes = 30}), 90);
  EXPECT_EQ(model.PaidPrefillTokens({.prefill_tokens = 100, .decodes = 50}), 100);
  EXPECT_EQ(model.Step({.prefill_tokens = 40}), model.Step({}));
  EXPECT_NEAR(Seconds(model.Step({.prefill_tokens = 50})) - Seconds(model.Step({})),
              10 * model.prefill_token, 1e-9);
}

TEST(StepModelTest, TheLargestCoefficientsAreFiniteTimes) {
  const auto model = ParseStepModel("{\"load_byte\": 10, \"context_token\": 10}");
  ASSERT_TRUE(model.ok());
  EXPECT_GT(model->Load(int64_t{1} << 40), Duration(0));
  EXPECT_GT(model->Step({.decodes = 1, .context_tokens = int64_t{1} << 40}), Duration(0));
}

TEST(StepModelTest, CurveIsItsSteps) {
  const scheduler::StepCurve curve = StepModel().Curve(32, 2048);
  EXPECT_NEAR(curve.Seconds(32), 0.034, 0.001);
  EXPECT_LT(curve.FlatBatch(0.5, 32), 32);
  EXPECT_EQ(StepModel().Curve(1, 1).FlatBatch(0.5, 32), 32);
}

}  // namespace
}  // namespace aril::simulate

#include "simulate/step_fit.h"

#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::simulate {
namespace {

using ::testing::HasSubstr;

constexpr double kRelative = 1e-6;  // of normal equations with condition 1e8 or less

std::vector<MeasuredStep> StepsOf(const StepModel& model) {
  std::vector<MeasuredStep> steps = {{.work = {.decodes = 1, .context_tokens = 128}},
                                     {.work = {.decodes = 8, .context_tokens = 8 * 128}},
                                     {.work = {.decodes = 32, .context_tokens = 32 * 128}},
                                     {.work = {.decodes = 32, .context_tokens = 32 * 1024}},
                                     {.work = {.decodes = 16,
                                               .context_tokens = 16 * 128,
                                               .adapter_bytes = int64_t{16} * 25'000'000}},
                                     {.work = {.prefill_tokens = 512}}};
  for (MeasuredStep& step : steps) {
    step.seconds = std::chrono::duration<double>(model.Step(step.work)).count();
  }
  return steps;
}

TEST(StepFitTest, FindsTheModelThatMadeTheSteps) {
  // Of long steps: they are whole nanoseconds.
  StepModel model;
  for (const auto member : {&StepModel::base, &StepModel::prefill_token, &StepModel::sequence,
                            &StepModel::context_token, &StepModel::adapter_byte}) {
    model.*member *= 1e3;
  }
  const auto fit = FitStepModel(StepsOf(model));
  ASSERT_TRUE(fit.ok()) << fit.status();
  for (const auto member : {&StepModel::base, &StepModel::prefill_token, &StepModel::sequence,
                            &StepModel::context_token, &StepModel::adapter_byte}) {
    EXPECT_NEAR(fit->model.*member / (model.*member), 1, kRelative);
  }
  EXPECT_LT(fit->worst_error, kRelative);
}

TEST(StepFitTest, PromptsOfDifferentLengthsTellFreeRows) {
  StepModel model;
  for (const auto member : {&StepModel::base, &StepModel::prefill_token, &StepModel::sequence,
                            &StepModel::context_token, &StepModel::adapter_byte}) {
    model.*member *= 1e3;
  }
  model.free_rows = 48;
  std::vector<MeasuredStep> steps = StepsOf(model);
  EXPECT_EQ(FitStepModel(steps)->model.free_rows, 0) << "of one length";
  for (const int64_t tokens : {16, 64, 128}) {
    MeasuredStep& step = steps.emplace_back();
    step.work.prefill_tokens = tokens;
    step.seconds = std::chrono::duration<double>(model.Step(step.work)).count();
  }
  const auto fit = FitStepModel(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_EQ(fit->model.free_rows, 48);
  EXPECT_NEAR(fit->model.prefill_token / model.prefill_token, 1, kRelative);
  EXPECT_LT(fit->worst_error, kRelative);
}

TEST(StepFitTest, NoCoefficientIsBelowZero) {
  std::vector<MeasuredStep> steps = StepsOf({});
  steps[3].seconds = steps[2].seconds * 0.9;  // a longer context was faster
  const auto fit = FitStepModel(steps);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_EQ(fit->model.context_token, 0);
  EXPECT_GT(fit->model.base, 0);
  EXPECT_GT(fit->worst_error, 0.03);
  EXPECT_LT(fit->worst_error, 0.2);
}

TEST(StepFitTest, SaysWhatWasNotMeasured) {
  std::vector<MeasuredStep> steps = StepsOf({});
  steps.back().work = {.decodes = 4, .context_tokens = 4 * 128};
  EXPECT_THAT(Message(FitStepModel(steps).status()), HasSubstr("with prefill tokens"));
  steps = StepsOf({});
  steps[3].work.context_tokens = 32 * 128;  // as long as all the others
  EXPECT_THAT(Message(FitStepModel(steps).status()), HasSubstr("differ too little"));
  steps.resize(3);
  EXPECT_THAT(Message(FitStepModel(steps).status()), HasSubstr("these are 3"));
}

}  // namespace
}  // namespace aril::simulate

#include "scheduler/step_curve.h"

#include "gtest/gtest.h"

namespace aril::scheduler {
namespace {

TEST(StepCurveTest, LinesBetweenPointsAndBeyond) {
  const auto curve = StepCurve::Make({{1, 0.010}, {11, 0.020}, {21, 0.050}});
  ASSERT_TRUE(curve.ok());
  EXPECT_DOUBLE_EQ(curve->Seconds(1), 0.010);
  EXPECT_DOUBLE_EQ(curve->Seconds(6), 0.015);
  EXPECT_DOUBLE_EQ(curve->Seconds(11), 0.020);
  EXPECT_DOUBLE_EQ(curve->Seconds(31), 0.080);
  EXPECT_DOUBLE_EQ(StepCurve::Make({{1, 0.5}})->Seconds(7), 0.5);
}

TEST(StepCurveTest, FlatBatchIsTheLastWithinTheSlack) {
  const auto curve = StepCurve::Make({{1, 0.010}, {11, 0.020}});
  EXPECT_EQ(curve->FlatBatch(0.5, 32), 6);
  EXPECT_EQ(curve->FlatBatch(0.0, 32), 1);
  EXPECT_EQ(curve->FlatBatch(10, 32), 32);
}

TEST(StepCurveTest, RefusesCurvesThatAreNone) {
  const std::vector<std::vector<StepCurve::Point>> bad = {
      {},
      {{2, 0.1}},
      {{1, 0.1}, {1, 0.2}},
      {{1, 0.2}, {2, 0.1}},
      {{1, 0}},
      {{1, std::numeric_limits<double>::quiet_NaN()}}};
  for (const auto& points : bad) EXPECT_FALSE(StepCurve::Make(points).ok());
}

}  // namespace
}  // namespace aril::scheduler

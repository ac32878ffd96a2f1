#include "scheduler/admission.h"

#include "gtest/gtest.h"

namespace aril::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint At(double s) {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s)));
}

TEST(QueueRatesTest, AveragesPeriods) {
  QueueRates rates(seconds(1));
  for (int i = 0; i < 1000; ++i) {
    rates.OnArrival(At(i * 0.1));
    if (i % 2 == 0) rates.OnPlaced(At(i * 0.1));
  }
  EXPECT_NEAR(rates.arrivals_per_s(), 10, 1);
  EXPECT_NEAR(rates.placed_per_s(), 5, 1);
  EXPECT_FALSE(rates.capacity_per_s());
  rates.SetWaiting(true, At(100.5));
  rates.Advance(At(101.1));
  EXPECT_FALSE(rates.capacity_per_s()) << "nothing waited in the first half of that second";
  rates.Advance(At(102.1));
  EXPECT_TRUE(rates.capacity_per_s());
}

TEST(QueueRatesTest, CapacityIsAtLeastWhatIsPlaced) {
  QueueRates rates(seconds(1));
  rates.SetWaiting(true, At(0));
  for (int i = 0; i < 20; ++i) rates.OnPlaced(At(i * 2));
  EXPECT_NEAR(*rates.capacity_per_s(), 0.5, 0.2);
  rates.SetWaiting(false, At(40));
  for (int i = 0; i < 100; ++i) rates.OnPlaced(At(41 + i * 0.1));
  EXPECT_NEAR(*rates.capacity_per_s(), 10, 1) << "short ones came, and nothing had to wait";
}

TEST(QueueRatesTest, TakingEmptySeatsIsNoCapacity) {
  QueueRates rates(seconds(1));
  rates.SetWaiting(true, At(0));
  for (int i = 0; i < 40; ++i) rates.OnPlaced(At(i * 0.5));
  EXPECT_NEAR(*rates.capacity_per_s(), 2, 0.5);
  rates.SetWaiting(false, At(20));
  for (int i = 0; i < 16; ++i) rates.OnPlaced(At(80));
  rates.Advance(At(82));
  EXPECT_LT(*rates.capacity_per_s(), 5);
}

TEST(QueueRatesTest, ForgetsAnIdleDayAtOnce) {
  QueueRates rates(milliseconds(1));
  rates.OnArrival(At(0));
  rates.OnPrefill(seconds(9));
  rates.Advance(At(86'400));
  rates.Advance(At(86'401));
  EXPECT_LT(rates.arrivals_per_s(), 1e-3);
  EXPECT_EQ(rates.max_prefill(), Duration(0));
}

TEST(OrderPolicyTest, NewestOnlyWhenMoreComesThanIsPlaced) {
  QueueRates rates(seconds(1));
  EXPECT_FALSE(NewestWhenOverloaded().NewestFirst(rates));
  for (int i = 0; i < 50; ++i) rates.OnArrival(At(i * 0.1));
  EXPECT_TRUE(NewestWhenOverloaded().NewestFirst(rates));
  EXPECT_FALSE(FirstComeFirstServed().NewestFirst(rates));
  EXPECT_TRUE(LastComeFirstServed().NewestFirst(rates));
}

TEST(EarlyAbortTest, LeavesTimeForThePrefill) {
  QueueRates rates(seconds(1));
  EXPECT_EQ(EarlyAbort(seconds(6)).MaxWait(rates), seconds(6));
  rates.OnPrefill(seconds(2));
  EXPECT_EQ(EarlyAbort(seconds(6)).MaxWait(rates), seconds(4));
  rates.OnPrefill(seconds(9));
  EXPECT_EQ(EarlyAbort(seconds(6)).MaxWait(rates), seconds(3)) << "one slow load is not all loads";
  EXPECT_FALSE(NeverAbort().MaxWait(rates));
}

TEST(QueueBoundTest, ServiceBoundIsWhatCanBePlacedInTime) {
  QueueRates rates(seconds(1));
  const ServiceBound bound(1000, seconds(2));
  EXPECT_FALSE(bound.RetryAfter(999, rates)) << "nothing is known about the rate yet";
  EXPECT_TRUE(bound.RetryAfter(1000, rates));
  rates.SetWaiting(true, At(0));
  for (int i = 0; i < 400; ++i) rates.OnPlaced(At(i * 0.1));
  EXPECT_FALSE(bound.RetryAfter(15, rates));
  rates.OnPrefill(milliseconds(1500));
  EXPECT_TRUE(bound.RetryAfter(15, rates)) << "a second is left, at ten a second";
  const auto retry = bound.RetryAfter(200, rates);
  ASSERT_TRUE(retry);
  EXPECT_GT(*retry, seconds(10));
  EXPECT_LT(*retry, seconds(30));
  EXPECT_FALSE(bound.RetryAfter(0, rates)) << "one may always wait";
}

}  // namespace
}  // namespace aril::scheduler

#include "scheduler/policies.h"

#include "gtest/gtest.h"

namespace aril::scheduler {
namespace {

using std::chrono::seconds;

// Two arrivals a second, one of which is placed.
QueueRates Overloaded() {
  QueueRates rates(seconds(1));
  rates.SetWaiting(true, TimePoint());
  for (int i = 0; i < 20; ++i) {
    const TimePoint now{seconds(i)};
    rates.OnArrival(now);
    rates.OnArrival(now);
    rates.OnPlaced(now);
  }
  return rates;
}

TEST(PoliciesTest, NothingChosenIsFirstComeFirstServedForEver) {
  const Policies policies = MakePolicies({});
  const QueueRates rates = Overloaded();
  EXPECT_FALSE(policies.order->NewestFirst(rates));
  EXPECT_FALSE(policies.abort->MaxWait(rates));
  EXPECT_FALSE(policies.bound->RetryAfter(16'383, rates));
  EXPECT_TRUE(policies.bound->RetryAfter(16'384, rates));
  EXPECT_EQ(policies.tenants->Group(3), policies.tenants->Group(4));
  EXPECT_EQ(policies.preferred_adapters, AdapterLimit());
}

TEST(PoliciesTest, EachChoiceIsInForce) {
  PolicyOptions options = {.slo = seconds(6),
                           .aborts_early = true,
                           .bounds_by_service = true,
                           .max_waiting = 100,
                           .is_fair = true,
                           .tenant_weights = {{"paying", 2}},
                           .preferred_adapters = {.number = 8, .pool_share = 0.5}};
  const QueueRates rates = Overloaded();
  for (const auto& [order, newest_first] : {std::pair{QueueOrder::kFirstComeFirstServed, false},
                                            std::pair{QueueOrder::kLastComeFirstServed, true},
                                            std::pair{QueueOrder::kNewestWhenOverloaded, true}}) {
    options.order = order;
    EXPECT_EQ(MakePolicies(options).order->NewestFirst(rates), newest_first);
  }
  const Policies policies = MakePolicies(options);
  EXPECT_FALSE(policies.order->NewestFirst(QueueRates(seconds(1))));
  EXPECT_EQ(policies.abort->MaxWait(rates), seconds(6)) << "no prefill was seen";
  EXPECT_FALSE(policies.bound->RetryAfter(3, rates));
  EXPECT_TRUE(policies.bound->RetryAfter(10, rates)) << "about one a second is placed";
  EXPECT_TRUE(policies.bound->RetryAfter(100, QueueRates(seconds(1))));
  EXPECT_NE(policies.tenants->Group(3), policies.tenants->Group(4));
  EXPECT_EQ(policies.preferred_adapters, options.preferred_adapters);
  policies.tenants->OnNew(3, "paying");
  policies.tenants->OnNew(4, "other");
  policies.tenants->OnBacklogged(3);
  policies.tenants->OnBacklogged(4);
  policies.tenants->OnPrompt(3, 15);
  policies.tenants->OnPrompt(4, 10);
  EXPECT_EQ(policies.tenants->Turns(1), (std::vector<int32_t>{3})) << "15 / 2 is less than 10";
}

}  // namespace
}  // namespace aril::scheduler

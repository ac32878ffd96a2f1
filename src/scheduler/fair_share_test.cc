#include "scheduler/fair_share.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace aril::scheduler {
namespace {

TEST(FairShareTest, LeastServedGoesFirst) {
  FairShare share({.prompt_weight = 1, .output_weight = 2});
  share.OnBacklogged(1);
  share.OnBacklogged(2);
  share.OnPrompt(1, 10);
  EXPECT_EQ(share.Turns(9), (std::vector<int32_t>{2, 1}));
  share.OnOutput(2, 6);
  EXPECT_EQ(share.Turns(1), (std::vector<int32_t>{1}));
  EXPECT_DOUBLE_EQ(share.counter(2), 12);
}

TEST(FairShareTest, WhoComesBackHasNotSavedUp) {
  FairShare share({});
  share.OnBacklogged(1);
  share.OnPrompt(1, 1000);
  share.OnBacklogged(2);
  EXPECT_DOUBLE_EQ(share.counter(2), 1000);
  share.OnEmpty(1);
  share.OnPrompt(2, 500);
  share.OnEmpty(2);
  // Nobody waits: the last to leave counts.
  share.OnBacklogged(3);
  EXPECT_DOUBLE_EQ(share.counter(3), 1500);
}

TEST(FairShareTest, WeightsDivideService) {
  FairShare share({.weights = {{"paying", 4}}});
  share.OnNew(1, "paying");
  share.OnNew(2, "trying");
  share.OnPrompt(1, 100);
  share.OnPrompt(2, 100);
  EXPECT_DOUBLE_EQ(share.counter(1), 25);
  EXPECT_DOUBLE_EQ(share.counter(2), 100);
}

// A server that runs sequences of random lengths within M tokens; all tenants always have some
// waiting. Theorem 4.4 of the paper, at every moment of every run.
TEST(FairShareTest, GapBetweenBackloggedTenantsIsBounded) {
  struct Running {
    int32_t tenant;
    int64_t remaining;
    int64_t reserved;
  };
  constexpr int64_t kMaxPrompt = 200, kMaxOutput = 100, kMaxRunningTokens = 1500;
  constexpr double kPromptWeight = 1, kOutputWeight = 2;
  constexpr double kBound =
      2 * std::max(kPromptWeight * kMaxPrompt, kOutputWeight * kMaxRunningTokens);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    const auto num_tenants = static_cast<int32_t>(draw(2, 5));
    FairShare share({.prompt_weight = kPromptWeight, .output_weight = kOutputWeight});
    // A tenant's requests are of its own size: some send many small ones, some few large ones.
    std::vector<int64_t> prompt_of, output_of;
    std::map<int32_t, double> service;
    for (int32_t t = 0; t < num_tenants; ++t) {
      share.OnBacklogged(t);
      prompt_of.push_back(draw(1, kMaxPrompt));
      output_of.push_back(draw(1, kMaxOutput));
      service[t] = 0;
    }
    std::vector<Running> running;
    int64_t used = 0;
    double largest_gap = 0;
    for (int step = 0; step < 1000; ++step) {
      for (;;) {
        const int32_t tenant = share.Turns(1).at(0);
        const auto t = static_cast<size_t>(tenant);
        const int64_t output = draw(1, output_of[t]);
        if (used + prompt_of[t] + output > kMaxRunningTokens) break;
        used += prompt_of[t] + output;
        running.push_back({tenant, output, prompt_of[t] + output});
        share.OnPrompt(tenant, prompt_of[t]);
        service[tenant] += kPromptWeight * static_cast<double>(prompt_of[t]);
      }
      for (Running& r : running) {
        share.OnOutput(r.tenant, 1);
        service[r.tenant] += kOutputWeight;
        if (--r.remaining == 0) used -= r.reserved;
      }
      std::erase_if(running, [](const Running& r) { return r.remaining == 0; });
      const auto [least, most] =
          std::minmax_element(service.begin(), service.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; });
      largest_gap = std::max(largest_gap, most->second - least->second);
      ASSERT_LE(most->second - least->second, kBound) << "step " << step;
    }
    EXPECT_GT(largest_gap, 0);
  }
}

}  // namespace
}  // namespace aril::scheduler

#include "scheduler/runner_index.h"

#include <random>

#include "gtest/gtest.h"

namespace aril::scheduler {
namespace {

RunnerLoad Load(int32_t id, int64_t num_sequences, int64_t pages, const char* numeric_class = "a") {
  return {.info = {RunnerId(id), numeric_class, 8, 1000},
          .reported_pages = pages,
          .num_sequences = num_sequences};
}

PlacementNeed Need(int64_t pages, int32_t adapter = -1, int64_t adapter_pages = 0) {
  return {.sequence = SequenceId(1),
          .adapter = AdapterId(adapter),
          .pages = pages,
          .adapter_pages = adapter_pages};
}

TEST(RunnerIndexTest, LargestWorkingSetWithRoom) {
  RunnerIndex index(1);
  index.Add(Load(1, 0, 100));
  index.Add(Load(2, 3, 100));
  index.Add(Load(3, 5, 14));
  index.Add(Load(4, 8, 100));  // no seat
  EXPECT_EQ(index.Find(Need(9)), RunnerId(3));
  EXPECT_EQ(index.Find(Need(10)), RunnerId(2)) << "5 pages of 3's are for its sequences to grow";
  EXPECT_EQ(index.Find(Need(98)), RunnerId(1));
  EXPECT_EQ(index.Find(Need(101)), std::nullopt);
}

TEST(RunnerIndexTest, Ties) {
  RunnerIndex index(1);
  index.Add(Load(1, 3, 50));
  index.Add(Load(2, 3, 40));
  index.Add(Load(3, 3, 40));
  EXPECT_EQ(index.Find(Need(5)), RunnerId(3)) << "fewest pages, then the highest id";
  index.Update(RunnerId(1), [](RunnerLoad& load) { load.Use(AdapterId(7), 5); });
  EXPECT_EQ(index.Find(Need(5, 7, 2)), RunnerId(1)) << "where the adapter is";
  index.Update(RunnerId(2), [](RunnerLoad& load) {
    load.Use(AdapterId(7), 2);
    load.Use(AdapterId(7), 2);
  });
  EXPECT_EQ(index.Find(Need(5, 7, 2)), RunnerId(2)) << "where more use it";
}

TEST(RunnerIndexTest, AnAdapterInUseNeedsNoPages) {
  RunnerIndex index(1);
  index.Add(Load(1, 1, 10));
  EXPECT_EQ(index.Find(Need(5, 7, 5)), std::nullopt);
  index.Update(RunnerId(1), [](RunnerLoad& load) { load.Use(AdapterId(7), 5); });
  EXPECT_EQ(index.Find(Need(5, 7, 5)), RunnerId(1));
  PlacementNeed clustered = Need(1, 8, 1);
  EXPECT_EQ(index.Find(clustered), RunnerId(1));
  clustered.adapter_limit.number = 1;
  EXPECT_EQ(index.Find(clustered), std::nullopt);
}

TEST(RunnerIndexTest, AnAdapterBeyondTheShareIsAlone) {
  RunnerIndex index(1);
  for (const int32_t id : {1, 2}) {
    RunnerLoad load = Load(id, 2 - id, 50);
    load.info.pages_total = 100;
    if (id == 1) load.Use(AdapterId(7), 30);
    index.Add(load);
  }
  PlacementNeed need = Need(1, 8, 30);
  need.adapter_limit.pool_share = 0.25;
  EXPECT_EQ(index.Find(need), RunnerId(2)) << "not with another one";
}

TEST(RunnerIndexTest, AdaptersMayBeLimitedToAShareOfThePool) {
  RunnerIndex index(1);
  RunnerLoad load = Load(1, 2, 50);
  load.info.pages_total = 100;
  load.Use(AdapterId(7), 20);
  load.Use(AdapterId(7), 20);
  index.Add(load);
  PlacementNeed need = Need(1, 8, 6);
  need.adapter_limit.pool_share = 0.25;
  EXPECT_EQ(index.Find(need), std::nullopt) << "20 and 6 are more than a quarter";
  need.adapter_pages = 5;
  EXPECT_EQ(index.Find(need), RunnerId(1));
  need.adapter = AdapterId(7);
  need.adapter_pages = 20;
  EXPECT_EQ(index.Find(need), RunnerId(1)) << "in use, it adds nothing";
  need.adapter = AdapterId(8);
  index.Update(RunnerId(1), [](RunnerLoad& of_first) { of_first.Unuse(AdapterId(7)); });
  EXPECT_EQ(index.Find(need), std::nullopt) << "the other one still uses it";
  index.Update(RunnerId(1), [](RunnerLoad& of_first) { of_first.Unuse(AdapterId(7)); });
  EXPECT_EQ(index.Find(need), RunnerId(1));
}

TEST(RunnerIndexTest, MayPreferTheSmallest) {
  RunnerIndex index(1);
  index.Add(Load(1, 4, 100));
  index.Add(Load(2, 2, 100, "b"));
  index.Add(Load(3, 1, 3));
  PlacementNeed need = Need(5);
  need.prefers_smallest = true;
  EXPECT_EQ(index.Find(need), RunnerId(2));
}

TEST(RunnerIndexTest, WhoIsNotOpen) {
  RunnerIndex index(0);
  index.Add(Load(1, 1, 10));
  index.Update(RunnerId(1), [](RunnerLoad& load) { load.num_evicted = 1; });
  EXPECT_TRUE(index.IsFull());
  index.Update(RunnerId(1), [](RunnerLoad& load) {
    load.num_evicted = 0;
    load.reserved_for = SequenceId(1);
  });
  EXPECT_EQ(index.Find(Need(1)), std::nullopt);
  EXPECT_TRUE(index.HasRoom(RunnerId(1), Need(1)));
  index.Update(RunnerId(1), [](RunnerLoad& load) { load.is_accepting = false; });
  EXPECT_FALSE(index.HasRoom(RunnerId(1), Need(1)));
  EXPECT_TRUE(index.by_size().empty());
}

TEST(RunnerIndexTest, PrefersTheNumericClass) {
  RunnerIndex index(0);
  index.Add(Load(1, 5, 100, "avx2"));
  index.Add(Load(2, 1, 100, "amx"));
  PlacementNeed need = Need(1);
  EXPECT_EQ(index.Find(need), RunnerId(1));
  need.numeric_class = "amx";
  EXPECT_EQ(index.Find(need), RunnerId(2));
  need.pages = 101;
  EXPECT_EQ(index.Find(need), std::nullopt);
  index.Update(RunnerId(2), [](RunnerLoad& load) { load.reported_pages = 0; });
  need.pages = 1;
  EXPECT_EQ(index.Find(need), RunnerId(1)) << "another class rather than none";
}

// Against looking at every runner, on loads drawn at random.
TEST(RunnerIndexTest, FindsWhatASearchOfAllFinds) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    RunnerIndex index(1);
    constexpr int32_t kNumRunners = 6;  // fewer than kMaxProbes: the search is exact
    for (int32_t i = 0; i < kNumRunners; ++i) index.Add(Load(i, 0, 0));
    for (int round = 0; round < 50; ++round) {
      index.Update(RunnerId(static_cast<int32_t>(random() % kNumRunners)), [&](RunnerLoad& load) {
        load.num_sequences = static_cast<int64_t>(random() % 9);
        load.reported_pages = static_cast<int64_t>(random() % 40);
        load.is_accepting = random() % 8 != 0;
        load.adapters.clear();
        load.adapter_pages = 0;
        for (int64_t s = 0; s < load.num_sequences; ++s) {
          load.Use(AdapterId(static_cast<int32_t>(random() % 4)), 6);
        }
      });
      PlacementNeed need =
          Need(static_cast<int64_t>(random() % 20), static_cast<int32_t>(random() % 5) - 1, 6);
      need.avoid = RunnerId(static_cast<int32_t>(random() % 8));
      if (need.adapter == kBaseModel) need.adapter_pages = 0;
      if (random() % 2 == 0)
        need.adapter_limit.pool_share = 0.01 * static_cast<double>(random() % 30);
      int64_t best = -1;
      for (int32_t i = 0; i < kNumRunners; ++i) {
        if (index.HasRoom(RunnerId(i), need)) {
          best = std::max(best, index.Get(RunnerId(i)).num_sequences);
        }
      }
      const std::optional<RunnerId> found = index.Find(need);
      ASSERT_EQ(found.has_value(), best >= 0);
      if (!found) continue;
      EXPECT_TRUE(index.HasRoom(*found, need));
      EXPECT_EQ(index.Get(*found).num_sequences, best);
    }
  }
}

}  // namespace
}  // namespace aril::scheduler

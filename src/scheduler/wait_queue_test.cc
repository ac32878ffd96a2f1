#include "scheduler/wait_queue.h"

#include <random>

#include "gtest/gtest.h"
#include "scheduler/admission.h"

namespace aril::scheduler {
namespace {

QueueKey Key(int64_t id, int32_t tenant = 0, int32_t priority = 0, bool has_started = false) {
  return {.sequence = SequenceId(id),
          .tenant = tenant,
          .priority = priority,
          .arrival = TimePoint(Duration(id)),
          .has_started = has_started};
}

std::vector<int64_t> Ids(const std::vector<SequenceId>& sequences) {
  std::vector<int64_t> ids;
  for (const SequenceId id : sequences) ids.push_back(id.value());
  return ids;
}

TEST(WaitQueueTest, ByPriorityThenArrival) {
  OneLine tenants;
  WaitQueue queue(tenants);
  for (const int64_t id : {3, 1, 2}) queue.Add(Key(id));
  queue.Add(Key(4, 0, 1));
  EXPECT_EQ(Ids(queue.First(9, false)), (std::vector<int64_t>{4, 1, 2, 3}));
  EXPECT_EQ(Ids(queue.First(9, true)), (std::vector<int64_t>{4, 3, 2, 1}));
  EXPECT_EQ(Ids(queue.First(2, false)), (std::vector<int64_t>{4, 1}));
  queue.Remove(Key(1));
  EXPECT_EQ(Ids(queue.First(9, false)), (std::vector<int64_t>{4, 2, 3}));
  EXPECT_EQ(queue.size(), 3u);
}

// Within one line, too.
TEST(WaitQueueTest, PrioritiesAreWithinATenant) {
  OneLine tenants;
  WaitQueue queue(tenants);
  for (const int64_t id : {1, 3, 5}) queue.Add(Key(id, 7));
  queue.Add(Key(2, 8));
  queue.Add(Key(4, 8, -1));
  queue.Add(Key(6, 8, 3));
  queue.Add(Key(7, 7, 1));
  queue.Add(Key(8, 7, 2));
  // The places of tenant 7 are 1, 3, 5, 7 and 8; those of tenant 8 are 2, 4 and 6.
  EXPECT_EQ(Ids(queue.First(9, false)), (std::vector<int64_t>{8, 6, 7, 2, 1, 4, 3, 5}));
  EXPECT_EQ(Ids(queue.First(3, false)), (std::vector<int64_t>{8, 6, 7}));
  EXPECT_EQ(Ids(queue.First(9, true)), (std::vector<int64_t>{8, 7, 6, 5, 2, 3, 4, 1}));
  queue.Remove(Key(7, 7, 1));
  queue.Remove(Key(6, 8, 3));
  EXPECT_EQ(Ids(queue.First(9, false)), (std::vector<int64_t>{8, 2, 1, 4, 3, 5}));
}

TEST(WaitQueueTest, TenantsTakeTurns) {
  FairShare tenants({});
  WaitQueue queue(tenants);
  for (const int64_t id : {1, 2, 3}) queue.Add(Key(id, 7));
  queue.Add(Key(4, 8));
  tenants.OnPrompt(7, 5);
  EXPECT_EQ(Ids(queue.First(3, false)), (std::vector<int64_t>{4, 1, 2}));
  queue.Remove(Key(4, 8));
  EXPECT_EQ(Ids(queue.First(9, false)), (std::vector<int64_t>{1, 2, 3}));
}

TEST(WaitQueueTest, WhoAsksForMuchIsBehindItself) {
  OneLine one_line;
  WaitQueue shared(one_line);
  FairShare tenants({});
  WaitQueue queue(tenants);
  for (const int64_t id : {1, 2, 3, 4}) {
    shared.Add(Key(id, 7));
    queue.Add(Key(id, 7));
  }
  EXPECT_EQ(shared.NumAhead(8), 4u);
  EXPECT_EQ(queue.NumAhead(7), 4u);
  EXPECT_EQ(queue.NumAhead(8), 0u);
  queue.Add(Key(5, 8));
  EXPECT_EQ(queue.NumAhead(8), 2u) << "its own, and one of the other's";
  EXPECT_EQ(queue.NumAhead(7), 5u) << "all that there are";
  queue.Remove(Key(5, 8));
  EXPECT_EQ(queue.NumAhead(8), 0u);
}

TEST(WaitQueueTest, TheBoundOfThoseBeforeEachBoundsAll) {
  constexpr size_t kMaxWaiting = 12;
  constexpr int32_t kNumTenants = 3;
  const FixedBound bound(kMaxWaiting);
  const QueueRates rates(std::chrono::seconds(1));
  const size_t most = FixedBound::MostWaiting(kMaxWaiting, kNumTenants);
  EXPECT_EQ(most, 12u + 6u + 4u);
  FairShare tenants({});
  WaitQueue queue(tenants);
  int64_t last_id = 0;
  for (int32_t tenant = 0; tenant < kNumTenants; ++tenant) {
    while (!bound.RetryAfter(queue.NumAhead(tenant), rates)) queue.Add(Key(++last_id, tenant));
  }
  EXPECT_EQ(queue.size(), most) << "should they come one after the other";

  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<QueueKey> waiting;
    FairShare turns({});
    WaitQueue other(turns);
    for (int i = 0; i < 2'000; ++i) {
      // Mostly of one tenant for a while, so that each comes to fill it.
      const auto tenant =
          static_cast<int32_t>((i / 100 + (random() % 8 == 0 ? 1 : 0)) % kNumTenants);
      if (random() % 4 == 0 && !waiting.empty()) {
        std::swap(waiting[random() % waiting.size()], waiting.back());
        other.Remove(waiting.back());
        waiting.pop_back();
      } else if (!bound.RetryAfter(other.NumAhead(tenant), rates)) {
        waiting.push_back(Key(i, tenant));
        other.Add(waiting.back());
      }
      ASSERT_LE(other.size(), most);
    }
  }
}

TEST(WaitQueueTest, OldestHasNotStarted) {
  OneLine tenants;
  WaitQueue queue(tenants);
  EXPECT_FALSE(queue.Oldest());
  queue.Add(Key(1, 0, 0, true));
  queue.Add(Key(2));
  EXPECT_EQ(queue.Oldest()->second, SequenceId(2));
  queue.Remove(Key(2));
  EXPECT_FALSE(queue.Oldest());
  EXPECT_FALSE(queue.empty());
}

}  // namespace
}  // namespace aril::scheduler

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
  queue.Remove(SequenceId(1));
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
  queue.Remove(SequenceId(7));
  queue.Remove(SequenceId(6));
  EXPECT_EQ(Ids(queue.First(9, false)), (std::vector<int64_t>{8, 2, 1, 4, 3, 5}));
}

// Else a tenant that always has one waiting that is worth little would give its place to one after
// the other, before all others.
TEST(WaitQueueTest, WhoLeavesTakesItsPlaceAlong) {
  OneLine tenants;
  WaitQueue queue(tenants);
  queue.Add(Key(1, 7));
  queue.Add(Key(2, 8));
  for (const int64_t id : {3, 4}) queue.Add(Key(id, 7, 1));
  std::vector<int64_t> order;
  while (!queue.empty()) {
    const SequenceId first = queue.First(1, false).front();
    order.push_back(first.value());
    queue.Remove(first);
  }
  EXPECT_EQ(order, (std::vector<int64_t>{3, 2, 4, 1}));
}

// It is to go on where it was, before those that came after it.
TEST(WaitQueueTest, WhatHasStartedStandsAtItsOwnPlace) {
  OneLine tenants;
  WaitQueue queue(tenants);
  queue.Add(Key(1, 7, 0, /*has_started=*/true));
  queue.Add(Key(2, 8));
  queue.Add(Key(3, 7, 5));
  queue.Add(Key(4, 7, 6));
  EXPECT_EQ(Ids(queue.First(9, false)), (std::vector<int64_t>{1, 2, 4, 3}));
  queue.Remove(SequenceId(1));
  EXPECT_EQ(Ids(queue.First(9, false)), (std::vector<int64_t>{2, 4, 3}));
}

// As the engine has it: a newcomer changes places with those of its tenant before it.
TEST(WaitQueueTest, IsLikeChangingPlaces) {
  constexpr uint64_t kSeed = 20261202;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", round " << round);
    OneLine tenants;
    WaitQueue queue(tenants);
    std::vector<QueueKey> model;
    for (int64_t id = 1; id <= 60; ++id) {
      QueueKey key = Key(id, static_cast<int32_t>(random() % 3), static_cast<int32_t>(random() % 4),
                         random() % 8 == 0);
      queue.Add(key);
      model.push_back(key);
      size_t own = model.size() - 1;
      for (size_t ahead = own; ahead-- > 0 && !key.has_started;) {
        const QueueKey& other = model[ahead];
        if (other.has_started || other.tenant != key.tenant) continue;
        if (other.priority >= key.priority) break;
        std::swap(model[own], model[ahead]);
        own = ahead;
      }
      if (random() % 3 == 0) {
        const size_t gone = random() % 2 == 0 ? 0 : random() % model.size();
        queue.Remove(model[gone].sequence);
        model.erase(model.begin() + static_cast<std::ptrdiff_t>(gone));
      }
      std::vector<SequenceId> expected;
      for (const QueueKey& one : model) expected.push_back(one.sequence);
      ASSERT_EQ(Ids(queue.First(100, false)), Ids(expected));
      ASSERT_EQ(queue.First(100, true).size(), model.size());
    }
  }
}

TEST(WaitQueueTest, TenantsTakeTurns) {
  FairShare tenants({});
  WaitQueue queue(tenants);
  for (const int64_t id : {1, 2, 3}) queue.Add(Key(id, 7));
  queue.Add(Key(4, 8));
  tenants.OnPrompt(7, 5);
  EXPECT_EQ(Ids(queue.First(3, false)), (std::vector<int64_t>{4, 1, 2}));
  queue.Remove(SequenceId(4));
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
  queue.Remove(SequenceId(5));
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
        other.Remove(waiting.back().sequence);
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
  queue.Remove(SequenceId(2));
  EXPECT_FALSE(queue.Oldest());
  EXPECT_FALSE(queue.empty());
}

}  // namespace
}  // namespace aril::scheduler

#include "scheduler/one_runner.h"

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "base/retry_after.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::scheduler {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kPageTokens = 16;

// A runner with 16 tokens to a page, that begins what it is told to and takes steps by hand.
class Server {
 public:
  explicit Server(const PolicyOptions& policies, int64_t max_running = 1, int64_t pages = 100,
                  int64_t max_rows = 512, int64_t state_pages = 0)
      : pages_(pages),
        state_pages_(state_pages),
        control_({.max_running = max_running,
                  .max_rows = max_rows,
                  .pages_total = pages,
                  .pages = {.page_tokens = kPageTokens, .state_pages = state_pages},
                  .policies = policies},
                 now_) {}

  // 16 tokens to start with.
  void Submit(int64_t id, const std::string& tenant = "default", int32_t adapter = -1,
              int64_t adapter_pages = 0, int32_t max_tokens = 16) {
    wire::SequenceRequest request;
    request.sequence = SequenceId(id);
    request.tenant = tenant;
    request.adapters = MixOf(AdapterId(adapter));
    request.prompt.resize(16);
    request.max_tokens = max_tokens;
    request.arrival = now_;
    request.is_sibling = is_sibling;
    request.priority = priority;
    adapter_pages_[id] = adapter_pages;
    Take(control_.OnSubmitted(request, adapter_pages, now_));
  }
  // In the next step.
  void End(int64_t id) {
    running_.erase(id);
    ended_.push_back(SequenceId(id));
  }
  void Cancel(int64_t id) { Take(control_.OnClosed(SequenceId(id), now_)); }
  // Everybody gets a token, but `evicted`, which has given way.
  void Step(Duration time = milliseconds(20), int64_t evicted = -1) {
    now_ += time;
    wire::StepStats stats;
    stats.pages_available = pages_ - pinned;
    for (auto& [id, num_tokens] : running_) {
      const bool is_running = id != evicted;
      if (is_running) {
        ++num_tokens;
        stats.pages_available -=
            state_pages_ + CeilDiv(num_tokens, kPageTokens) + adapter_pages_[id];
      }
      stats.sequences.push_back(
          {SequenceId(id), is_running, true, static_cast<int32_t>(num_tokens)});
    }
    Take(control_.OnStep(stats, std::exchange(ended_, {}), now_));
  }

  int64_t pinned = 0;       // pages
  bool is_sibling = false;  // what is submitted
  int32_t priority = 0;     // likewise
  std::vector<int64_t> begun, refused;
  std::vector<Status> why;

 private:
  void Take(const wire::AdmissionControl::Decisions& decisions) {
    for (const SequenceId id : decisions.begin) {
      begun.push_back(id.value());
      running_[id.value()] = 16;
    }
    for (const auto& [id, status] : decisions.refuse) {
      refused.push_back(id.value());
      why.push_back(status);
    }
  }

  const int64_t pages_, state_pages_;
  TimePoint now_{seconds(1)};
  OneRunner control_;
  std::map<int64_t, int64_t> running_, adapter_pages_;
  std::vector<SequenceId> ended_;
};

TEST(OneRunnerTest, BeginsAsManyAsHaveSeatsAndAFewToLoadAhead) {
  Server server({}, 2);
  for (int64_t id = 0; id < 6; ++id) server.Submit(id);
  EXPECT_THAT(server.begun, SizeIs(2 + OneRunner::kLookahead));
  server.Step();
  server.End(1);
  server.Step();
  EXPECT_THAT(server.begun, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(server.refused, IsEmpty());
}

TEST(OneRunnerTest, WaitsForPagesOfStates) {
  const auto begun = [](int64_t state_pages) {
    Server server({}, 8, 30, 512, state_pages);
    for (int64_t id = 0; id < 6; ++id) server.Submit(id);
    server.Step();
    return server.begun.size();
  };
  EXPECT_EQ(begun(0), 6U);
  EXPECT_EQ(begun(8), 3U) << "of 9 pages each, and one to grow by";
  Server server({}, 8, 30, 512, 30);
  server.Submit(0);
  EXPECT_THAT(server.refused, ElementsAre(0)) << "it fits nowhere";
}

TEST(OneRunnerTest, WaitsForPagesOfTokensAndAdapters) {
  Server server({}, 8, 10);
  server.Submit(0, "default", 1, 4);
  server.Step();
  server.Submit(1, "default", 2, 4);
  server.Submit(2, "default", 1, 4);
  EXPECT_THAT(server.begun, ElementsAre(0, 2))
      << "one more adapter does not fit, its second user does";
  server.End(0);
  server.End(2);
  server.Step();
  EXPECT_THAT(server.begun, ElementsAre(0, 2, 1));
}

// What is pinned takes pages that the statistics count as gone; whoever was accepted fits all the
// same.
TEST(OneRunnerTest, AnIdleRunnerBeginsWhoeverWasAccepted) {
  Server server({}, 8, 10);
  server.Submit(0);
  server.Submit(1, "default", 1, 8);
  server.Step();
  EXPECT_THAT(server.begun, ElementsAre(0));
  server.End(0);
  server.Step();
  EXPECT_THAT(server.begun, ElementsAre(0, 1));
}

// Also in the moment in which the last one has ended: there is room for two.
TEST(OneRunnerTest, MoreThanOneBeginOnlyWithPagesThatAreThere) {
  Server server({}, 8, 10);
  server.pinned = 7;
  server.Submit(0);
  server.Step();
  for (int64_t id = 1; id < 5; ++id) server.Submit(id);
  EXPECT_THAT(server.begun, ElementsAre(0));
  server.End(0);
  server.Step();
  EXPECT_THAT(server.begun, ElementsAre(0, 1, 2));
}

TEST(OneRunnerTest, TenantsTakeTurns) {
  Server server({.is_fair = true});
  for (int64_t id = 0; id < 20; ++id) server.Submit(id, "noisy");
  server.Step();
  server.Submit(20, "quiet");
  const auto num_before = static_cast<int64_t>(server.begun.size());
  for (int64_t id = 0; id < 2; ++id) {
    server.End(id);
    server.Step();
  }
  const auto quiet = std::find(server.begun.begin(), server.begun.end(), 20);
  ASSERT_NE(quiet, server.begun.end());
  EXPECT_LE(quiet - server.begun.begin(), num_before + 1);
}

TEST(OneRunnerTest, KeepsASeatForTenantsThatHaveLessThanTheirPart) {
  Server server({.is_fair = true}, 8);
  for (int64_t id = 0; id < 9; ++id) server.Submit(id, "noisy");
  EXPECT_THAT(server.begun, SizeIs(8)) << "there is no other tenant";
  server.Submit(20, "quiet");
  server.End(0);
  server.Step();
  EXPECT_THAT(server.begun, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 20));
  server.End(1);
  server.End(20);
  server.Step();
  EXPECT_THAT(server.begun, SizeIs(10)) << "8; of two free seats one is kept";
  server.Submit(21, "quiet");
  EXPECT_THAT(server.begun, Contains(21)) << "at once";
  server.Submit(9, "noisy");
  server.Submit(22, "quiet");
  server.Submit(23, "third");
  EXPECT_THAT(server.begun, SizeIs(11)) << "all seats are taken";
  server.End(2);
  server.End(3);
  server.Step();
  EXPECT_THAT(server.begun, SizeIs(13));
  EXPECT_THAT(server.begun, Contains(22)) << "the second of it, before the noisy one's seventh";
  EXPECT_THAT(server.begun, Contains(23));
}

// Of prompts of 16 tokens, with steps of at most 8 rows: two steps compute one.
TEST(OneRunnerTest, ATenantsPromptsDoNotTakeAllSeats) {
  Server server({.is_fair = true}, 16, 1000, 8);
  server.Submit(100, "quiet");
  server.Step();
  server.End(100);
  server.Step();
  for (int64_t id = 0; id < 20; ++id) server.Submit(id, "noisy");
  EXPECT_THAT(server.begun, ElementsAre(100, 0, 1, 2, 3)) << "a quarter of the seats";
  server.Submit(101, "quiet");
  EXPECT_THAT(server.begun, Contains(101));
  server.Step();  // all are computed
  EXPECT_THAT(server.begun, ElementsAre(100, 0, 1, 2, 3, 101, 4, 5, 6, 7));
}

// As many as there are seats: steps are not to be emptier than they need be.
TEST(OneRunnerTest, PromptsThatFillFewStepsAreNotHeldBack) {
  Server server({.is_fair = true}, 16, 1000, 128);
  server.Submit(100, "quiet");
  for (int64_t id = 0; id < 20; ++id) server.Submit(id, "noisy");
  EXPECT_THAT(server.begun, SizeIs(1 + 14)) << "and one that is kept";
}

TEST(OneRunnerTest, ATenantAloneHasAllSeats) {
  Server server({.is_fair = true}, 16, 1000, 8);
  for (int64_t id = 0; id < 20; ++id) server.Submit(id, "noisy");
  EXPECT_THAT(server.begun, SizeIs(16));
}

// Whose prompts have just been computed is not held back for them when a seat becomes free.
TEST(OneRunnerTest, TheStepGoesBeforeTheSeatsThatItFreed) {
  Server server({.is_fair = true}, 8, 1000, 8);
  for (int64_t id = 0; id < 6; ++id) server.Submit(10 + id, "other");
  for (int i = 0; i < 30; ++i) server.Step();
  server.Submit(0, "late");
  server.Submit(1, "late");
  server.Submit(2, "late");
  EXPECT_THAT(server.begun, SizeIs(8));
  server.Submit(20, "other");
  server.End(10);
  server.End(11);
  server.Step();
  EXPECT_EQ(server.begun.back(), 2) << "the late one has had less";
  EXPECT_THAT(server.begun, Not(Contains(20))) << "the second seat is kept";
}

// Who waits for what its tenant has used up is not overtaken: nothing is kept free for it.
TEST(OneRunnerTest, ATenantThatHasItsShareHoldsUpNobody) {
  Server server({.is_fair = true}, 16, 1000, 8);
  server.Submit(0, "quiet0");
  for (int64_t id = 1; id < 9; ++id) server.Submit(id, "noisy");
  EXPECT_THAT(server.begun, ElementsAre(0, 1, 2, 3, 4));
  for (int64_t id = 10; id < 110; ++id) {
    server.Submit(id, "quiet" + std::to_string(id % 2));
    server.Cancel(id);
  }
  EXPECT_THAT(server.begun, SizeIs(5 + 100)) << "more than Scheduler lets anybody be overtaken";
}

// In the middle of its prefill, for older ones that needed pages.
TEST(OneRunnerTest, WhoHasGivenWayBeforeItsFirstTokenIsNotTurnedAway) {
  Server server({.slo = seconds(2), .aborts_early = true}, 2);
  server.Submit(0);
  server.Submit(1);
  server.Submit(2);
  for (int i = 0; i < 40; ++i) server.Step(milliseconds(100), 1);
  EXPECT_THAT(server.refused, ElementsAre(2));
  server.End(0);
  server.Step();
  server.End(1);
  server.Submit(3);
  server.Step();
  EXPECT_THAT(server.begun, ElementsAre(0, 1, 3));
}

// Whoever has been overtaken often enough has the runner to itself, also if it is not among those
// any more that are looked at.
TEST(OneRunnerTest, NobodyWaitsForAnIdleRunner) {
  Server server({.order = QueueOrder::kLastComeFirstServed}, 8, 10);
  size_t num_ended = 0;
  const auto end_one = [&] {
    server.End(server.begun[num_ended++]);
    server.Step();
  };
  for (int64_t id = 0; id < 100; ++id) server.Submit(id);
  server.Submit(100, "default", 1, 8);
  server.Step();
  for (int i = 0; i < 65; ++i) end_one();  // older ones overtake it
  EXPECT_THAT(server.begun, Not(Contains(100)));
  for (int64_t id = 101; id < 150; ++id) server.Submit(id);
  while (num_ended < server.begun.size()) end_one();
  EXPECT_THAT(server.begun, SizeIs(150)) << "all of them, in the end";
}

TEST(OneRunnerTest, TurnsAwayWhoCannotBeServedInTime) {
  Server server({.slo = seconds(2), .aborts_early = true});
  for (int64_t id = 0; id < 5; ++id) server.Submit(id);
  for (int i = 0; i < 40; ++i) server.Step(milliseconds(100));
  EXPECT_THAT(server.refused, ElementsAre(1, 2, 3, 4)) << "who has begun is not aborted";
  EXPECT_EQ(server.why[0].code(), StatusCode::kUnavailable);
  EXPECT_EQ(RetryAfter(server.why[0]), Duration(seconds(1)));
  server.End(0);
  server.Step();
  EXPECT_THAT(server.begun, ElementsAre(0)) << "nobody is left";
}

TEST(OneRunnerTest, TheQueueIsBounded) {
  Server server({.max_waiting = 2});
  for (int64_t id = 0; id < 6; ++id) server.Submit(id);
  EXPECT_THAT(server.begun, ElementsAre(0, 1, 2));
  EXPECT_THAT(server.refused, ElementsAre(5));
  server.Cancel(4);  // while it waits
  server.Submit(6);
  EXPECT_THAT(server.refused, ElementsAre(5));
  server.Submit(7);
  EXPECT_THAT(server.refused, ElementsAre(5, 7));
}

TEST(OneRunnerTest, ARequestOfSeveralSequencesEntersAsOne) {
  Server server({.max_waiting = 2});
  for (int64_t id = 0; id < 8; ++id) {
    server.is_sibling = id > 0;
    server.Submit(id);
  }
  EXPECT_THAT(server.refused, IsEmpty());
  server.is_sibling = false;
  server.Submit(8);
  EXPECT_THAT(server.refused, ElementsAre(8));
}

TEST(OneRunnerTest, WhatNeverFitsIsRefusedForGood) {
  Server server({}, 8, 10);
  server.Submit(0, "default", -1, 0, 160);
  ASSERT_THAT(server.refused, ElementsAre(0));
  EXPECT_EQ(server.why[0].code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(RetryAfter(server.why[0]));
}

TEST(OneRunnerTest, PrioritiesOrderWhatATenantHasWaiting) {
  Server server({.is_fair = true});
  server.Submit(1, "a");
  server.Submit(2, "a");
  server.Submit(3, "b");
  server.priority = 2;
  server.Submit(4, "a");
  server.priority = 1;
  server.Submit(5, "a");
  for (int64_t last = 1; last != 2; last = server.begun.back()) {
    server.End(last);
    server.Step();
  }
  EXPECT_THAT(server.begun, ElementsAre(1, 4, 3, 5, 2)) << "in turns, and then the older";
}

}  // namespace
}  // namespace aril::scheduler

// Each rule of planner.h by itself. planner_simulation_test.cc shows what they do together.

#include "engine/planner.h"

#include <utility>

#include "engine/planner_test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(Planner, PlansNothingForNobody) {
  const Plan plan = MakePlan({.available_pages = 10}, kLimits);
  EXPECT_THAT(plan.items, IsEmpty());
  EXPECT_THAT(plan.admit, IsEmpty());
}

TEST(Planner, DecodesGetTheirRowBeforePrefillsShareTheRest) {
  const Plan plan = MakePlan(
      {.sequences = {Running(0, 100, 4), Decoding(1, 9), Decoding(2, 3)}, .available_pages = 100},
      kLimits);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 14), Pair(1, 1), Pair(2, 1)));
}

TEST(Planner, TheOldestPrefillTakesTheBudgetFirst) {
  const Plan plan =
      MakePlan({.sequences = {Running(0, 12, 2), Running(1, 50, 4), Running(2, 50, 0)},
                .available_pages = 100},
               kLimits);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 10), Pair(1, 6))) << "no rows are left for 2";
  EXPECT_TRUE(plan.items[0].prefill);
}

TEST(Planner, ALongPromptIsAdmittedInChunksButOnlyWithPagesForAll) {
  const PlanView fits{.sequences = {Waiting(0, 40)}, .available_pages = 10};
  const Plan plan = MakePlan(fits, kLimits);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 16)));
  EXPECT_THAT(NewPages(plan), ElementsAre(4)) << "pages are taken chunk by chunk";
  EXPECT_THAT(MakePlan({.sequences = {Waiting(0, 40)}, .available_pages = 9}, kLimits).admit,
              IsEmpty());
}

TEST(Planner, AdmitsInOrderOfArrivalUntilTheRowsAreUsedUp) {
  const Plan plan = MakePlan(
      {.sequences = {Waiting(3, 6), Waiting(5, 12), Waiting(7, 2)}, .available_pages = 100},
      kLimits);
  EXPECT_THAT(Values(plan.admit), ElementsAre(3, 5));
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(3, 6), Pair(5, 10)));
}

TEST(Planner, TheHeadOfTheQueueIsNotOvertaken) {
  const Plan plan = MakePlan(
      {.sequences = {Decoding(0, 4), Waiting(1, 80), Waiting(2, 1)}, .available_pages = 10},
      kLimits);
  EXPECT_THAT(plan.admit, IsEmpty());
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 1)));
}

TEST(Planner, RunsAtMostSoManySequences) {
  PlanLimits limits = kLimits;
  limits.max_running = 2;
  const Plan plan = MakePlan(
      {.sequences = {Decoding(0, 4), Waiting(1, 1), Waiting(2, 1)}, .available_pages = 100},
      limits);
  EXPECT_THAT(Values(plan.admit), ElementsAre(1));
}

// A newcomer needs its pages, one for each other running sequence, and what those were promised.
TEST(Planner, KeepsHeadroomForRunningSequences) {
  const auto admits = [](std::vector<PlanSequence> sequences, int64_t free_pages) {
    return !MakePlan({.sequences = std::move(sequences), .available_pages = free_pages}, kLimits)
                .admit.empty();
  };
  EXPECT_TRUE(admits({Waiting(9, 8)}, 2));
  EXPECT_FALSE(admits({Waiting(9, 8)}, 1));
  EXPECT_TRUE(admits({Decoding(0, 4), Decoding(1, 4), Waiting(9, 8)}, 4));
  EXPECT_FALSE(admits({Decoding(0, 4), Decoding(1, 4), Waiting(9, 8)}, 3));
  // 0 starts a page in this step: 5 tokens.
  EXPECT_TRUE(admits({Decoding(0, 5), Decoding(1, 4), Waiting(9, 8)}, 5));
  EXPECT_FALSE(admits({Decoding(0, 5), Decoding(1, 4), Waiting(9, 8)}, 4));
  // 0 has 2 of the 5 pages of its prompt.
  EXPECT_TRUE(admits({Running(0, 18, 8), Waiting(9, 8)}, 3 + 2 + 1));
  EXPECT_FALSE(admits({Running(0, 18, 8), Waiting(9, 8)}, 3 + 2 + 0));
}

TEST(Planner, CountsThePagesOfAnAdapterThatNobodyUses) {
  const auto admits = [](bool used, int64_t available_pages) {
    const AdapterId of_running = used ? kA : kBaseModel;
    return !MakePlan({.sequences = {Decoding(0, 4, of_running), Waiting(9, 8, kA)},
                      .adapters = {{kA, 7}},
                      .available_pages = available_pages},
                     kLimits)
                .admit.empty();
  };
  EXPECT_TRUE(admits(false, 7 + 2 + 1));
  EXPECT_FALSE(admits(false, 7 + 2 + 0)) << "resident or not: idle ones count as available";
  EXPECT_TRUE(admits(true, 2 + 1));
  EXPECT_FALSE(admits(true, 2 + 0));
}

TEST(Planner, CachedPagesAreNotNeededButNoLongerAvailable) {
  const auto admits = [](int64_t num_cached, int64_t num_own, int64_t available_pages) {
    return !MakePlan({.sequences = {Decoding(0, 4), Cached(Waiting(9, 20), num_cached, num_own)},
                      .available_pages = available_pages},
                     kLimits)
                .admit.empty();
  };
  for (const int64_t num_cached : {0, 3, 4}) {
    EXPECT_TRUE(admits(num_cached, num_cached, 5 + 1)) << "nobody else uses them";
    EXPECT_FALSE(admits(num_cached, num_cached, 5 + 0));
  }
  EXPECT_TRUE(admits(3, 0, 2 + 1)) << "others use them all";
  EXPECT_FALSE(admits(3, 0, 2 + 0));
  EXPECT_TRUE(admits(3, 1, 3 + 1));
  EXPECT_FALSE(admits(3, 1, 3 + 0));
}

TEST(Planner, CachedTokensTakeNoRows) {
  const Plan plan = MakePlan(
      {.sequences = {Cached(Waiting(0, 41), 10, 10), Cached(Waiting(1, 50), 9, 0), Waiting(2, 8)},
       .available_pages = 100},
      kLimits);
  EXPECT_THAT(Values(plan.admit), ElementsAre(0, 1, 2));
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(1, 14), Pair(2, 1), Pair(0, 1)));
  EXPECT_THAT(NewPages(plan), ElementsAre(4, 1, 1));
}

TEST(Planner, TwoNewcomersShareOneCopyOfTheirAdapter) {
  const PlanView view{.sequences = {Waiting(0, 4, kA), Waiting(1, 4, kA)},
                      .adapters = {{kA, 7}},
                      .available_pages = 7 + 1 + 1 + 1};
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), ElementsAre(0, 1));
}

TEST(Planner, EvictsTheNewestFirstAndOnlyAsManyAsNeeded) {
  const Plan plan = MakePlan(
      {.sequences = {Decoding(0, 5), Decoding(1, 5), Decoding(2, 4), Decoding(3, 4)}}, kLimits);
  EXPECT_THAT(Values(plan.evict), ElementsAre(3, 2)) << "each had one page";
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 1), Pair(1, 1)));
}

TEST(Planner, EvictsWhoAsksWhenItIsTheNewest) {
  const Plan plan = MakePlan({.sequences = {Decoding(0, 40), Decoding(1, 5)}}, kLimits);
  EXPECT_THAT(Values(plan.evict), ElementsAre(1));
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 1)));
}

TEST(Planner, AnEvictedSequenceMakesItsOwnPagesAndItsAdapterAvailable) {
  // 0 wants 3 pages; 1 has one, and its adapter two.
  const auto evicts = [](AdapterId of_oldest, int64_t num_own) {
    PlanSequence victim = Decoding(2, 3, kA);
    victim.num_own_pages = num_own;
    return Values(MakePlan({.sequences = {Running(0, 16, 4, of_oldest), Decoding(1, 4), victim},
                            .adapters = {{kA, 2}}},
                           kLimits)
                      .evict);
  };
  EXPECT_THAT(evicts(kBaseModel, 1), ElementsAre(2));
  EXPECT_THAT(evicts(kA, 1), ElementsAre(2, 1)) << "the adapter is used by 0, which waits";
  EXPECT_THAT(evicts(kBaseModel, 0), ElementsAre(2, 1)) << "the page is used by an older one";
}

TEST(Planner, AdmitsNobodyInAStepThatEvicts) {
  // Eviction of 1 frees many pages, enough for 2.
  const Plan plan =
      MakePlan({.sequences = {Decoding(0, 5), Decoding(1, 40), Waiting(2, 1)}}, kLimits);
  EXPECT_THAT(Values(plan.evict), ElementsAre(1));
  EXPECT_THAT(plan.admit, IsEmpty());
}

TEST(Planner, AnEvictedSequenceReturnsAheadOfLaterArrivals) {
  // 1 ran before; 2 came later and is smaller.
  const Plan plan = MakePlan(
      {.sequences = {Decoding(0, 4), Waiting(1, 9), Waiting(2, 1)}, .available_pages = 4}, kLimits);
  EXPECT_THAT(Values(plan.admit), ElementsAre(1));
}

TEST(Planner, OneSequenceMayHoldThePoolAlone) {
  const Plan plan = MakePlan({.sequences = {Decoding(0, 41, kA), Waiting(1, 1)},
                              .adapters = {{kA, 3}},
                              .available_pages = 1},
                             kLimits);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 1)));
  EXPECT_THAT(NewPages(plan), ElementsAre(1));
  EXPECT_THAT(plan.evict, IsEmpty());
  EXPECT_THAT(plan.admit, IsEmpty());
}

TEST(Planner, OrdersPrefillsThenDecodesWithAdaptersAdjacentAlsoAcrossTheBorder) {
  const Plan plan =
      MakePlan({.sequences = {Decoding(0, 4, kC), Running(1, 4, 1, kB), Decoding(2, 4, kB),
                              Running(3, 4, 1, kA), Decoding(4, 4), Running(5, 4, 1, kB),
                              Decoding(6, 4, kC), Running(7, 4, 2)},
                .adapters = {{kA, 1}, {kB, 1}, {kC, 1}},
                .available_pages = 100},
               kLimits);
  std::vector<std::pair<int32_t, bool>> order;
  for (const Plan::Item& item : plan.items) {
    const AdapterId adapter = item.adapters.empty() ? kBaseModel : item.adapters[0].id;
    order.emplace_back(adapter.value(), item.prefill);
  }
  // A decodes nowhere: first. B is on both sides of the border.
  EXPECT_THAT(order, ElementsAre(Pair(1, true), Pair(-1, true), Pair(2, true), Pair(2, true),
                                 Pair(2, false), Pair(-1, false), Pair(3, false), Pair(3, false)));
}

TEST(Planner, TheLastChunkOfAPromptIsAPrefillEvenWithOneRowLeft) {
  PlanLimits limits = kLimits;
  limits.max_rows = limits.max_running = 2;
  const Plan plan =
      MakePlan({.sequences = {Running(0, 9, 2), Decoding(1, 5)}, .available_pages = 9}, limits);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 1), Pair(1, 1)));
  EXPECT_TRUE(plan.items[0].prefill);
  EXPECT_FALSE(plan.items[1].prefill);
}

constexpr auto kAbsent = PlanAdapter::State::kAbsent;
constexpr auto kLoading = PlanAdapter::State::kLoading;

TEST(Planner, WhoseAdapterIsLoadingLetsTheOthersRun) {
  const Plan plan =
      MakePlan({.sequences = {Running(0, 9, 0, kA), Decoding(1, 5), Decoding(2, 5, kB)},
                .adapters = {{kA, 3, kLoading}, {kB, 3}},
                .available_pages = 10},
               kLimits);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(1, 1), Pair(2, 1)));
}

TEST(Planner, ALoadingSequenceIsPromisedItsPages) {
  // It will want three; the other wants one, the newcomer one, and one of headroom for each of two.
  const auto admitted = [](int64_t available) {
    return Values(MakePlan({.sequences = {Running(0, 9, 0, kA), Decoding(1, 5), Waiting(2, 4)},
                            .adapters = {{kA, 3, kLoading}},
                            .available_pages = available},
                           kLimits)
                      .admit);
  };
  EXPECT_THAT(admitted(6), IsEmpty());
  EXPECT_THAT(admitted(7), ElementsAre(2));
}

TEST(Planner, NobodyIsEvictedForASequenceThatCannotRunYet) {
  const Plan plan = MakePlan({.sequences = {Running(0, 9, 0, kA), Decoding(1, 8)},
                              .adapters = {{kA, 3, kLoading}},
                              .available_pages = 0},
                             kLimits);
  EXPECT_THAT(plan.evict, IsEmpty());
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(1, 1)));
}

TEST(Planner, ALoadingAdapterGivesNoPagesBack) {
  // Evicting 1 frees its two pages, not its adapter's three, which are being written.
  const Plan plan = MakePlan({.sequences = {Running(0, 13, 8), Running(1, 9, 8, kA)},
                              .adapters = {{kA, 3, kLoading}},
                              .available_pages = 0},
                             {.max_rows = 16, .max_running = 8, .pages = {.page_tokens = 4}});
  EXPECT_THAT(Values(plan.evict), ElementsAre(1));
  EXPECT_THAT(NewPages(plan), ElementsAre(2));
}

TEST(Planner, AnAdapterOnItsWayTakesNoMorePages) {
  const auto admitted = [](PlanAdapter::State state) {
    return Values(
        MakePlan(
            {.sequences = {Waiting(0, 4, kA)}, .adapters = {{kA, 3, state}}, .available_pages = 2},
            kLimits)
            .admit);
  };
  EXPECT_THAT(admitted(kAbsent), IsEmpty());
  EXPECT_THAT(admitted(kLoading), ElementsAre(0));
}

TEST(Planner, LoadsAheadWhatTheNextOnesNeed) {
  PlanLimits limits = kLimits;
  limits.max_running = 1;
  PlanView view{.sequences = {Decoding(0, 5, kA), Waiting(1, 4, kB)},
                .upcoming = {{SequenceId(2), MixOf(kB)},
                             {SequenceId(3), {}},
                             {SequenceId(4), {{kA}, {kB, 0.5f}}},
                             {SequenceId(5), MixOf(kC)}},
                .adapters = {{kA, 1}, {kB, 2, kAbsent}, {kC, 2, kAbsent}},
                .available_pages = 6,
                .max_prefetches = 4};
  EXPECT_THAT(Prefetches(MakePlan(view, limits)), ElementsAre(1, 5));
  view.available_pages = 5;
  EXPECT_THAT(Prefetches(MakePlan(view, limits)), ElementsAre(1)) << "a page of headroom";
  view.available_pages = 6;
  view.max_prefetches = 1;
  EXPECT_THAT(Prefetches(MakePlan(view, limits)), ElementsAre(1));
  view.max_prefetches = 4;
  view.adapters[1].state = kLoading;
  EXPECT_THAT(Prefetches(MakePlan(view, limits)), ElementsAre(5));
  view.adapters[1].state = PlanAdapter::State::kReady;
  view.available_pages = 5;
  EXPECT_THAT(Prefetches(MakePlan(view, limits)), IsEmpty())
      << "what is there already stays for who comes first";
}

TEST(Planner, LoadsNothingAheadOfWhatIsNeededNow) {
  PlanLimits limits = kLimits;
  limits.max_running = 2;
  PlanView view{.sequences = {Waiting(0, 4, kA), Waiting(1, 4, kB), Waiting(2, 4, kC)},
                .adapters = {{kA, 1, kAbsent}, {kB, 1, kAbsent}, {kC, 1, kAbsent}},
                .available_pages = 100,
                .max_prefetches = 3};
  EXPECT_THAT(Prefetches(MakePlan(view, limits)), ElementsAre(2));
  for (const int64_t max_prefetches : {2, 1, -4}) {
    view.max_prefetches = max_prefetches;
    EXPECT_THAT(Values(MakePlan(view, limits).admit), ElementsAre(0, 1));
    EXPECT_THAT(Prefetches(MakePlan(view, limits)), IsEmpty()) << max_prefetches;
  }
}

TEST(Planner, LoadsAheadIntoPagesThatNoPrefillWillWant) {
  PlanLimits limits = kLimits;
  limits.max_running = 1;
  limits.max_rows = 4;
  // Of 16 tokens it computes four in each step: this page, and two more.
  PlanView view{.sequences = {Running(0, 16, 4), Waiting(1, 4, kB)},
                .adapters = {{kB, 2, kAbsent}},
                .available_pages = 5,
                .max_prefetches = 4};
  EXPECT_THAT(Prefetches(MakePlan(view, limits)), IsEmpty());
  view.available_pages = 6;
  EXPECT_THAT(Prefetches(MakePlan(view, limits)), ElementsAre(1)) << "and one of headroom";
}

TEST(Planner, LoadsNothingAheadWhileTheNextOneLacksPages) {
  const Plan plan = MakePlan({.sequences = {Decoding(0, 5), Waiting(1, 16, kB), Waiting(2, 4, kC)},
                              .adapters = {{kB, 2, kAbsent}, {kC, 1, kAbsent}},
                              .available_pages = 5,
                              .max_prefetches = 4},
                             kLimits);
  EXPECT_THAT(plan.admit, IsEmpty());
  EXPECT_THAT(plan.prefetch, IsEmpty());
}

TEST(Planner, ASequenceWithSeveralAdaptersNeedsRoomForAllOfThem) {
  PlanSequence mixed = Waiting(1, 4);
  mixed.adapters = {{kB, 0.5f}, {kA}, {kC, 2}};
  // A is in use, and B there; C has to come. A page each for the tokens, for headroom, and for the
  // running one's next token.
  PlanView view{.sequences = {Decoding(0, 5, kA), mixed},
                .adapters = {{kA, 7}, {kB, 2}, {kC, 3, kAbsent}},
                .available_pages = 7};
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), IsEmpty());
  view.available_pages = 8;
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), ElementsAre(1));
}

TEST(Planner, EvictionFreesOnlyAdaptersThatNobodyElseUses) {
  PlanSequence newest = Decoding(1, 5);
  newest.adapters = {{kA}, {kB}};
  // 0 lacks three pages; 1 has one of its own and B's two.
  const Plan plan = MakePlan({.sequences = {Running(0, 16, 1, kA), newest},
                              .adapters = {{kA, 5}, {kB, 2}},
                              .available_pages = 0},
                             kLimits);
  EXPECT_THAT(Values(plan.evict), ElementsAre(1));
  EXPECT_THAT(NewPages(plan), ElementsAre(3));
}

TEST(Planner, TheOldestWaitsForPagesAndIsNotEvicted) {
  PlanView view{.sequences = {Running(0, 16, 1), Decoding(1, 5), Waiting(2, 1)},
                .available_pages = 0};
  Plan plan = MakePlan(view, kLimits);
  EXPECT_THAT(Values(plan.evict), ElementsAre(1));
  EXPECT_THAT(plan.items, IsEmpty()) << "that was not enough";
  view.sequences = {Running(0, 16, 1), Waiting(1, 5), Waiting(2, 1)};
  view.available_pages = 2;
  plan = MakePlan(view, kLimits);
  EXPECT_THAT(plan.evict, IsEmpty());
  EXPECT_THAT(plan.items, IsEmpty());
  EXPECT_THAT(plan.admit, IsEmpty()) << "nobody joins into what it waits for";
}

TEST(Planner, ASequenceWaitsForTheLastOfItsAdapters) {
  PlanSequence mixed = Running(0, 4, 1);
  mixed.adapters = {{kA}, {kB}};
  PlanView view{.sequences = {mixed, Decoding(1, 5, kA)},
                .adapters = {{kA, 3}, {kB, 3, kLoading}},
                .available_pages = 9};
  EXPECT_THAT(Rows(MakePlan(view, kLimits)), ElementsAre(Pair(1, 1)));
  view.adapters[1].state = PlanAdapter::State::kReady;
  EXPECT_THAT(Rows(MakePlan(view, kLimits)), ElementsAre(Pair(0, 3), Pair(1, 1)));
}

TEST(Planner, WhoUsesAPinnedAdapterTakesNoneOfItsPages) {
  PlanView view{.sequences = {Waiting(0, 4, kA)}, .adapters = {{kA, 3}}, .available_pages = 1};
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), IsEmpty()) << "it would not be idle any more";
  view.adapters[0].is_pinned = true;
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), ElementsAre(0));
}

TEST(Planner, NobodyJoinsIntoPromisedPages) {
  PlanView view{.sequences = {Waiting(0, 4)}, .available_pages = 3, .promised_pages = 3};
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), IsEmpty());
  view.available_pages = 4;
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), ElementsAre(0));
  view.sequences = {Running(0, 4, 0)};
  view.available_pages = 1;
  EXPECT_THAT(MakePlan(view, kLimits).items, testing::SizeIs(1)) << "who runs may take them";
}

TEST(Planner, WhoNeedsMoreThanTheAdaptersShareWaits) {
  using State = PlanAdapter::State;
  PlanView view{.sequences = {Decoding(0, 3, kA), Waiting(1, 4, kB), Waiting(2, 4)},
                .adapters = {{kA, 3}, {kB, 3, State::kAbsent}},
                .available_pages = 100,
                .available_adapter_pages = 2};
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), IsEmpty()) << "nobody is overtaken";
  view.available_adapter_pages = 3;
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), ElementsAre(1, 2));
  // Those who use what is used already, or none, need nothing of it.
  view.sequences = {Decoding(0, 3, kA), Waiting(1, 4, kA), Waiting(2, 4)};
  view.available_adapter_pages = 0;
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), ElementsAre(1, 2));
}

TEST(Planner, NobodyJoinsWhileAPinWaitsForTheAdaptersShare) {
  PlanView view{.sequences = {Decoding(0, 3, kA), Waiting(1, 4, kA), Waiting(2, 4)},
                .adapters = {{kA, 3}},
                .available_pages = 100,
                .available_adapter_pages = 5,
                .promised_pages = 6};
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), IsEmpty()) << "or kA might never be idle";
  view.available_adapter_pages = 6;
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), ElementsAre(1, 2));
}

TEST(Planner, SequencesKeepToTheirShareWhateverElseIsFree) {
  PlanView view{.sequences = {Decoding(0, 5), Decoding(1, 5), Waiting(2, 3, kA)},
                .adapters = {{kA, 3, PlanAdapter::State::kAbsent}},
                .available_pages = 100,
                .available_kv_pages = 5};
  // A page for each that runs, one to join with, and one for each of the others to grow by.
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), ElementsAre(2))
      << "its adapter is no KV cache";
  view.available_kv_pages = 4;
  EXPECT_THAT(Values(MakePlan(view, kLimits).admit), IsEmpty());
  view.available_kv_pages = 1;
  EXPECT_THAT(Values(MakePlan(view, kLimits).evict), ElementsAre(1));
}

TEST(Planner, LoadsAheadWithinTheAdaptersShare) {
  PlanView view{.sequences = {Decoding(0, 3, kA)},
                .upcoming = {{SequenceId(1), MixOf(kB)}, {SequenceId(2), MixOf(kC)}},
                .adapters = {{kA, 3},
                             {kB, 3, PlanAdapter::State::kAbsent},
                             {kC, 3, PlanAdapter::State::kAbsent}},
                .available_pages = 100,
                .available_adapter_pages = 5,
                .max_prefetches = 4};
  EXPECT_THAT(Prefetches(MakePlan(view, kLimits)), ElementsAre(1));
}

}  // namespace
}  // namespace aril

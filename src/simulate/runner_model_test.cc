#include "simulate/runner_model.h"

#include "gtest/gtest.h"
#include "simulate/random.h"

namespace aril::simulate {
namespace {

delivery::StartAttempt Start(int64_t id, size_t num_prompt, int32_t max_tokens,
                             int32_t adapter = -1, int64_t adapter_pages = 0) {
  delivery::StartAttempt start;
  start.gateway = GatewayId(0);
  start.request.sequence = SequenceId(id);
  start.request.attempt = 1;
  start.request.adapters = MixOf(AdapterId(adapter));
  start.request.prompt.assign(num_prompt, 1);
  start.request.max_tokens = max_tokens;
  start.request.arrival = TimePoint(Duration(id));
  start.adapter_pages = adapter_pages;
  return start;
}

RunnerModelOptions Small(int64_t pages) {
  return {.max_running = 4, .max_rows = 16, .pages_total = pages, .page_tokens = 4};
}

// Steps until nothing is left or nothing can run; the tokens of each sequence.
std::map<int64_t, std::vector<wire::TokenEvent>> RunAll(RunnerModel& model) {
  std::map<int64_t, std::vector<wire::TokenEvent>> events;
  TimePoint now{std::chrono::seconds(1)};
  for (int i = 0; i < 10'000 && model.num_sequences() > 0; ++i) {
    const auto step = model.BeginStep(now);
    if (!step && !model.next_ready()) break;
    now = step ? now + *step : *model.next_ready();
    for (wire::TokenEvent& event : model.EndStep(now)) {
      events[event.sequence.value()].push_back(event);
    }
    EXPECT_EQ(model.Audit(), "");
  }
  return events;
}

TEST(RunnerModelTest, TokensAreThoseOfTheirPositions) {
  RunnerModel model(Small(20));
  model.Add(Start(1, 10, 5));
  const auto events = RunAll(model);
  ASSERT_EQ(events.at(1).size(), 5u);
  for (int32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(events.at(1)[static_cast<size_t>(i)].index, i);
    EXPECT_EQ(events.at(1)[static_cast<size_t>(i)].token, ModelToken(SequenceId(1), 10 + i));
  }
  EXPECT_EQ(events.at(1)[4].finish, wire::FinishReason::kLength);
  EXPECT_EQ(model.Report().available_pages, 20);
}

TEST(RunnerModelTest, ResumesAfterTheTokensSoFar) {
  RunnerModel model(Small(20));
  delivery::StartAttempt start = Start(1, 10, 5);
  start.output = {7, 8, 9};
  model.Add(start);
  const auto events = RunAll(model);
  ASSERT_EQ(events.at(1).size(), 2u);
  EXPECT_EQ(events.at(1)[0].index, 3);
}

// Prompts of pages that are told apart by their numbers, and one token more.
delivery::StartAttempt StartOf(int64_t id, const std::vector<int32_t>& pages,
                               int32_t max_tokens = 1, int32_t adapter = -1) {
  delivery::StartAttempt start = Start(id, pages.size() * 4 + 1, max_tokens, adapter, 1);
  for (size_t i = 0; i < pages.size() * 4; ++i) start.request.prompt[i] = pages[i / 4];
  return start;
}

TEST(RunnerModelTest, PromptsShareThePagesThatTheyBeginWith) {
  for (const bool caches : {false, true}) {
    RunnerModelOptions options = Small(20);
    options.caches_prefixes = caches;
    RunnerModel model(options);
    const auto run = [&](const delivery::StartAttempt& start) {
      const int64_t before = model.num_cached();
      model.Add(start);
      RunAll(model);
      EXPECT_EQ(model.Report().available_pages, 20);
      return model.num_cached() - before;
    };
    EXPECT_EQ(run(StartOf(1, {1, 2, 3})), 0);
    EXPECT_EQ(run(StartOf(2, {1, 2, 3})), caches ? 12 : 0);
    EXPECT_EQ(run(StartOf(3, {1, 2, 4, 5})), caches ? 8 : 0);
    EXPECT_EQ(run(StartOf(4, {2, 1})), 0) << "the beginning counts";
    EXPECT_EQ(run(StartOf(5, {1, 2, 3}, 1, 6)), 0) << "another adapter's";
    EXPECT_EQ(run(Start(6, 12, 1)), caches ? 4 : 0);
    EXPECT_EQ(run(Start(7, 12, 1)), caches ? 8 : 0) << "the last token is computed";
  }
}

// Of two prompts that are computed at once one keeps its pages; and the ends of prompts that were
// used longest ago are dropped first.
TEST(RunnerModelTest, CachedPagesGiveWay) {
  RunnerModelOptions options = Small(12);
  options.caches_prefixes = true;
  RunnerModel model(options);
  model.Add(StartOf(1, {1, 2, 3}));
  model.Add(StartOf(2, {1, 2, 3}));
  RunAll(model);
  EXPECT_EQ(model.num_cached(), 0);
  const auto cached = [&](const delivery::StartAttempt& start) {
    const int64_t before = model.num_cached();
    model.Add(start);
    EXPECT_EQ(RunAll(model).at(start.request.sequence.value()).size(), 1u);
    return model.num_cached() - before;
  };
  cached(StartOf(3, {4, 5, 6, 7}));
  EXPECT_EQ(cached(StartOf(4, {1, 2, 3})), 12);
  EXPECT_EQ(cached(StartOf(5, {8, 9, 10, 11, 12, 13})), 0);
  EXPECT_EQ(cached(StartOf(6, {4, 5, 6, 7})), 8) << "two pages had to go";
}

TEST(RunnerModelTest, EvictsTheNewestAndLosesNothing) {
  RunnerModel model(Small(12));
  for (int64_t id = 1; id <= 3; ++id) model.Add(Start(id, 8, 20));
  const auto events = RunAll(model);
  EXPECT_GT(model.num_evictions(), 0);
  for (int64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(events.at(id).size(), 20u);
    for (int32_t i = 0; i < 20; ++i) EXPECT_EQ(events.at(id)[static_cast<size_t>(i)].index, i);
  }
}

TEST(RunnerModelTest, IdleAdaptersGiveWay) {
  RunnerModel model(Small(12));
  for (int32_t adapter = 0; adapter < 6; ++adapter) {
    model.Add(Start(adapter + 1, 4, 3, adapter, 4));
  }
  EXPECT_EQ(RunAll(model).size(), 6u);
  EXPECT_EQ(model.Report().available_pages, 12);
}

TEST(RunnerModelTest, ReportsWhatWaits) {
  RunnerModel model(Small(6));
  model.Add(Start(1, 8, 4));
  model.Add(Start(2, 16, 4));
  model.BeginStep(TimePoint());
  const wire::RunnerReport report = model.Report();
  ASSERT_EQ(report.sequences.size(), 2u);
  EXPECT_EQ(report.sequences[0].state, wire::RunnerSequenceState::kRunning);
  EXPECT_EQ(report.sequences[1].state, wire::RunnerSequenceState::kPending);
  EXPECT_EQ(report.available_pages, 0) << "2 are taken or promised, 4 wanted";
}

TEST(RunnerModelTest, RandomLoadsConserveAndComplete) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    SimRandom random(seed);
    RunnerModel model(Small(random.Int(24, 40)));
    std::map<int64_t, int64_t> wanted;
    for (int64_t id = 1; id <= 20; ++id) {
      wanted[id] = random.Int(1, 30);
      model.Add(Start(id, static_cast<size_t>(random.Int(1, 40)), static_cast<int32_t>(wanted[id]),
                      static_cast<int32_t>(random.Int(-1, 4)), random.Int(1, 4)));
    }
    model.Remove(SequenceId(3));
    const auto events = RunAll(model);
    for (const auto& [id, count] : wanted) {
      if (id == 3) continue;
      ASSERT_TRUE(events.contains(id)) << id;
      EXPECT_EQ(static_cast<int64_t>(events.at(id).size()), count);
    }
  }
}

TEST(RunnerModelTest, LoadsAheadOnlyIntoPagesThatNobodyWants) {
  RunnerModel model(Small(20));
  const TimePoint now{std::chrono::seconds(1)};
  EXPECT_FALSE(model.LoadAhead(kBaseModel, 0, now));
  EXPECT_TRUE(model.LoadAhead(AdapterId(1), 4, now));
  EXPECT_FALSE(model.LoadAhead(AdapterId(1), 4, now)) << "it is under way";
  EXPECT_TRUE(model.LoadAhead(AdapterId(2), 4, now));
  EXPECT_FALSE(model.LoadAhead(AdapterId(3), 4, now)) << "two are under way";
  EXPECT_EQ(model.Audit(), "");
  EXPECT_EQ(model.Report().available_pages, 20) << "whoever needs them gets them";

  const TimePoint later = now + std::chrono::hours(1);
  EXPECT_FALSE(model.LoadAhead(AdapterId(3), 13, later)) << "of 12 free ones";
  model.Add(Start(1, 10, 5, 1, 4));
  ASSERT_TRUE(model.BeginStep(later));
  EXPECT_FALSE(model.next_ready()) << "the adapter was there";
  model.EndStep(later);
  ASSERT_TRUE(model.BeginStep(later));
  EXPECT_FALSE(model.LoadAhead(AdapterId(3), 10, later)) << "three of the 12 are the sequence's";
  EXPECT_TRUE(model.LoadAhead(AdapterId(3), 9, later));
  EXPECT_EQ(model.Audit(), "");
}

}  // namespace
}  // namespace aril::simulate

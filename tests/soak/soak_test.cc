// Thousands of random requests with random cancellations through a runner, from several threads,
// in a pool that is too small for them. At the end every page, pin and live id must be back.
//
// ARIL_SOAK_REQUESTS sets the number of requests of each model. Default: 3,000, which take a few
// seconds; 1,000 in debug builds, whose sanitizers take ten times as long.

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/engine_fixture.h"

namespace aril {
namespace {

constexpr size_t kMaxQueued = 64;
constexpr int64_t kMaxTokens = 90;  // of a sequence, prompt and output

#ifdef NDEBUG
constexpr int64_t kDefaultRequests = 3000;
#else
constexpr int64_t kDefaultRequests = 1000;
#endif

int64_t NumRequests() {
  const char* requests = std::getenv("ARIL_SOAK_REQUESTS");
  return requests == nullptr ? kDefaultRequests : std::atoll(requests);
}

// Checks every event; counts what ends.
class SoakSink final : public wire::EventSink {
 public:
  void OnStep(const wire::StepStats& stats, std::vector<wire::TokenEvent> events) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(stats.pages_free + stats.pages_kv + stats.pages_adapter + stats.pages_prefix,
              stats.pages_total);
    for (const wire::TokenEvent& event : events) {
      int32_t& next_index = live_[event.sequence];
      EXPECT_EQ(event.index, next_index) << "sequence " << event.sequence;
      next_index += event.token.has_value() ? 1 : 0;
      if (!event.finish.has_value()) continue;
      EXPECT_NE(event.finish, wire::FinishReason::kError) << event.error;
      EXPECT_TRUE(ended_.insert(event.sequence).second) << "sequence " << event.sequence;
      live_.erase(event.sequence);
      ++ends_[*event.finish];
    }
    most_adapters_ = std::max(most_adapters_, stats.num_adapters);
    stats_ = stats;
    changed_.notify_all();
  }

  void WaitForEnds(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_.size() >= count; });
  }

  size_t num_ended() {
    const std::lock_guard lock(mutex_);
    return ended_.size();
  }
  wire::StepStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  int64_t num_ends(wire::FinishReason reason) {
    const std::lock_guard lock(mutex_);
    return ends_[reason];
  }
  int32_t most_adapters() {
    const std::lock_guard lock(mutex_);
    return most_adapters_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SequenceId, int32_t> live_;  // begun: the index of the next token
  std::set<SequenceId> ended_;
  std::map<wire::FinishReason, int64_t> ends_;
  int32_t most_adapters_ = 0;
  wire::StepStats stats_;
};

LocalRunnerOptions SoakOptions(const std::string& model) {
  LocalRunnerOptions options{.model_dir = SourcePath("tests/goldens/") + model,
                             .threads = 2,
                             .max_num_seqs = 12,
                             .max_num_batched_tokens = 40,
                             .max_model_len = kMaxTokens,
                             .max_queued = kMaxQueued};
  for (const auto& entry : std::filesystem::directory_iterator(options.model_dir + "/adapters"))
    options.adapter_dirs.push_back(entry.path());
  // What the two largest adapters and one sequence need: too little for all.
  const auto probe = OpenRunner(options);
  std::vector<int64_t> adapter_pages;
  for (size_t i = 0; i < options.adapter_dirs.size(); ++i)
    adapter_pages.push_back(probe->engine().PagesFor(AdapterId(static_cast<int32_t>(i))));
  std::ranges::sort(adapter_pages, std::ranges::greater());
  const kernels::KvLayout& layout = probe->engine().layout();
  const int64_t pages = adapter_pages[0] + adapter_pages[1] + kMaxTokens / layout.page_tokens + 1;
  options.pool_bytes = pages * layout.page_bytes();
  return options;
}

wire::SequenceRequest RandomRequest(int64_t id, const LocalRunner& runner,
                                    const Invocations& invocations, std::mt19937_64& random) {
  const int64_t vocab_size = runner.spec().vocab_size;
  // Some begin alike.
  std::vector<int32_t> prompt(1 + random() % 50, static_cast<int32_t>(random() % 2));
  for (size_t i = random() % prompt.size(); i < prompt.size(); ++i)
    prompt[i] = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
  auto request = GreedyRequest(id, std::move(prompt), static_cast<int32_t>(random() % 40),
                               RandomMix(random, invocations.size()));
  TakeOwnTokens(runner, random, request);
  Invoke(invocations, random, request);
  request.stop_token_ids = {static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size))};
  if (random() % 2 == 0) request.sampling = {.temperature = 1.0f, .top_p = 0.9f, .seed = random()};
  if (random() % 8 == 0) {
    request.sampling.num_logprobs = static_cast<int32_t>(random() % 4);
    request.sampling.prompt_logprobs = random() % 2 == 0;
  }
  return request;
}

// Submits requests one after the other, and cancels some, until all ids are used.
void RunClient(LocalRunner& runner, const Invocations& invocations, SoakSink& sink,
               std::atomic<int64_t>& next_id, uint64_t seed) {
  std::mt19937_64 random(seed);
  const int64_t num_requests = NumRequests();
  for (int64_t id = next_id++; id < num_requests; id = next_id++) {
    const auto request = RandomRequest(id, runner, invocations, random);
    for (size_t ended = sink.num_ended();; ended = sink.num_ended()) {
      const Status status = runner.port().Submit(request);
      if (status.ok()) break;
      ASSERT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
      sink.WaitForEnds(ended + 1);  // of those that fill the queue
    }
    if (random() % 3 == 0)
      runner.port().Cancel(SequenceId(id - static_cast<int64_t>(random() % 40)));
  }
}

void ExpectNothingHeld(const wire::StepStats& stats) {
  EXPECT_EQ(stats.pages_kv, 0);
  EXPECT_EQ(stats.num_running + stats.num_waiting, 0);
  EXPECT_TRUE(stats.adapters.empty());
}

// It must have been what it says. How often depends on how the threads met: only that it happened
// is asserted of what needs sequences side by side.
void ExpectHardWork(SoakSink& sink, const wire::StepStats& stats) {
  const int64_t num_requests = NumRequests();
  EXPECT_GT(stats.evictions, 0);
  EXPECT_GT(stats.adapter_evictions, 0);
  EXPECT_GT(stats.prefix_hits, 0);
  EXPECT_GT(sink.most_adapters(), 1);
  for (const auto reason :
       {wire::FinishReason::kStop, wire::FinishReason::kLength, wire::FinishReason::kCancelled}) {
    EXPECT_GT(sink.num_ends(reason), num_requests / 200) << static_cast<int>(reason);
  }
}

class Soak : public ::testing::TestWithParam<const char*> {};

TEST_P(Soak, GivesEverythingBack) {
  const LocalRunnerOptions options = SoakOptions(GetParam());
  const auto runner = OpenRunner(options);
  ASSERT_NE(runner, nullptr);
  const Invocations invocations = ReadInvocations(options.adapter_dirs);
  SoakSink sink;
  runner->Start(sink);
  std::atomic<int64_t> next_id = 0;
  std::vector<std::thread> clients;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    clients.emplace_back([&, seed] { RunClient(*runner, invocations, sink, next_id, seed); });
  }
  for (std::thread& client : clients) client.join();
  const int64_t num_requests = NumRequests();
  sink.WaitForEnds(static_cast<size_t>(num_requests));
  const wire::StepStats stats = sink.stats();
  ExpectNothingHeld(stats);
  ExpectHardWork(sink, stats);

  // No id is live any more: the queue takes as many as it holds. Stop ends these.
  for (int64_t i = 0; i < static_cast<int64_t>(kMaxQueued); ++i) {
    const Status status = runner->port().Submit(GreedyRequest(num_requests + i, {1}, 89));
    EXPECT_TRUE(status.ok()) << status;
  }
  runner->Stop();
  ExpectNothingHeld(sink.stats());
  EXPECT_EQ(sink.num_ended(), static_cast<size_t>(num_requests) + kMaxQueued);
}

INSTANTIATE_TEST_SUITE_P(Goldens, Soak, ::testing::Values("llama-f32-sharded", "qwen2-bf16"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace aril

// A small engine on a golden model, and streams of its events, for tests.

#ifndef ARIL_ENGINE_TEST_SUPPORT_H_
#define ARIL_ENGINE_TEST_SUPPORT_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "engine/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/cpu_backend.h"
#include "model/pool_layout.h"

namespace aril {

inline const std::string kEngineTestModel = SourcePath("tests/goldens/llama-f32-sharded");

struct TestEngineOptions {
  std::string model_dir = kEngineTestModel;
  // Become AdapterId(0) ….
  std::vector<std::string> adapter_dirs = {kEngineTestModel + "/adapters/all-r4",
                                           kEngineTestModel + "/adapters/down-r1",
                                           kEngineTestModel + "/adapters/qv-r64-bf16"};
  EngineOptions engine = {
      .max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 128, .num_pages = 400};
};

// An engine with everything it stands on: the model in float32, one thread, a clock that stands
// still.
class TestEngine {
 public:
  explicit TestEngine(const TestEngineOptions& options)
      : spec_(Value(LoadModelSpec(options.model_dir))),
        layout_(Value(ChooseKvLayout(spec_, DType::kF32))),
        model_(spec_, layout_,
               std::make_unique<CpuBackend>(
                   spec_, layout_,
                   Value(LoadWeights(Value(Checkpoint::Open(options.model_dir)), spec_, DType::kF32,
                                     Quantization::kNone, context_, nullptr)),
                   options.engine.max_num_batched_tokens, options.engine.max_model_len, context_)),
        engine_(options.engine, model_,
                std::make_unique<HostArena>(options.engine.num_pages, layout_.page_bytes()),
                adapters_, context_, clock_) {
    for (const std::string& dir : options.adapter_dirs)
      adapters_.Add(Value(Adapter::OpenWithoutBase(dir, spec_, kMaxLoraRank)));
  }

  Engine* operator->() { return &engine_; }
  Engine& operator*() { return engine_; }
  const ModelSpec& spec() const { return spec_; }
  ManualClock& clock() { return clock_; }
  AdapterSet& adapters() { return adapters_; }
  int64_t page_tokens() const { return model_.layout().page_tokens; }
  const kernels::KvLayout& layout() const { return model_.layout(); }

 private:
  template <typename T>
  static T Value(StatusOr<T> value) {
    CHECK(value.ok());
    return *std::move(value);
  }

  ModelSpec spec_;
  ThreadPool threads_{1};
  kernels::CpuContext context_{threads_, kernels::AvailableIsas().back()};
  AdapterSet adapters_;
  kernels::KvLayout layout_;
  Model model_;
  ManualClock clock_;
  Engine engine_;
};

inline wire::SequenceRequest GreedyRequest(int64_t id, std::vector<int32_t> prompt,
                                           int32_t max_tokens, AdapterId adapter = kBaseModel) {
  wire::SequenceRequest request;
  request.sequence = SequenceId(id);
  request.adapters = MixOf(adapter);
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

// Tokens of the test model.
inline std::vector<int32_t> RandomPrompt(std::mt19937_64& random, int64_t length) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  for (int32_t& token : prompt) token = static_cast<int32_t>(random() % 171);
  return prompt;
}

// Bitwise.
inline bool Same(const wire::Logprobs& a, const wire::Logprobs& b) {
  const auto same_top = [](const wire::TokenLogprob& x, const wire::TokenLogprob& y) {
    return x.token == y.token && x.logprob == y.logprob;
  };
  return a.logprob == b.logprob && a.rank == b.rank &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(), same_top);
}

inline bool Same(const std::vector<wire::Logprobs>& a, const std::vector<wire::Logprobs>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return Same(x, y); });
}

// What became of one sequence.
struct Stream {
  std::vector<int32_t> tokens;
  std::vector<std::optional<wire::Logprobs>> logprobs;  // of each token
  std::vector<wire::Logprobs> prompt_logprobs;
  std::vector<float> pooled;
  std::string label;
  std::optional<wire::FinishReason> finish;
  std::optional<int32_t> stop_token;
  int32_t num_cached = 0;
  wire::PredictionUse prediction_use;
  Status error;
};

// The streams of all sequences, by id; and what in the events was not as it must be.
class Streams {
 public:
  // A step may bring a sequence several tokens if they are guessed.
  enum class PerStep { kOneEvent, kSeveral };
  explicit Streams(PerStep per_step = PerStep::kOneEvent) : per_step_(per_step) {}

  void Take(const std::vector<wire::TokenEvent>& events) {
    std::map<SequenceId, int> counts;
    for (const wire::TokenEvent& event : events) {
      if (++counts[event.sequence] > 1 && per_step_ == PerStep::kOneEvent)
        Problem(event, "two events in a step");
      Take(event);
    }
  }

  Stream& operator[](int64_t id) { return streams_[SequenceId(id)]; }
  const std::map<SequenceId, Stream>& all() const { return streams_; }
  // Empty if every index was the next one, every event said something, and none came after an end.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void Take(const wire::TokenEvent& event) {
    Stream& stream = streams_[event.sequence];
    if (stream.finish.has_value()) Problem(event, "an event after the end");
    if (!event.token.has_value() && !event.finish.has_value()) Problem(event, "an empty event");
    if (event.index != static_cast<int32_t>(stream.tokens.size())) Problem(event, "a wrong index");
    if (event.error.ok() == (event.finish == wire::FinishReason::kError))
      Problem(event, "an error that is none, or none where there should be one");
    if (event.token.has_value()) {
      stream.tokens.push_back(*event.token);
      stream.logprobs.push_back(event.logprobs);
    }
    if (!event.prompt_logprobs.empty()) stream.prompt_logprobs = event.prompt_logprobs;
    stream.pooled = event.pooled;
    stream.label = event.label;
    stream.finish = event.finish;
    stream.stop_token = event.stop_token;
    stream.num_cached = event.num_cached;
    stream.prediction_use.num_accepted += event.prediction_use.num_accepted;
    stream.prediction_use.num_rejected += event.prediction_use.num_rejected;
    stream.error = event.error;
  }
  void Problem(const wire::TokenEvent& event, const std::string& what) {
    problems_.push_back(StrCat("sequence ", event.sequence, ", index ", event.index, ": ", what));
  }

  PerStep per_step_;
  std::map<SequenceId, Stream> streams_;
  std::vector<std::string> problems_;
};

// Adds a request that can run.
inline void Add(Engine& engine, wire::SequenceRequest request) {
  auto accepted = engine.Accept(std::move(request));
  CHECK(accepted.ok());
  engine.Add(*std::move(accepted));
}

// Adds the requests and steps until there is no more work.
inline Streams RunToEnd(Engine& engine, const std::vector<wire::SequenceRequest>& requests,
                        Streams::PerStep per_step = Streams::PerStep::kOneEvent) {
  Streams streams(per_step);
  for (const wire::SequenceRequest& request : requests) {
    Add(engine, request);
  }
  while (engine.HasWork()) streams.Take(engine.Step());
  return streams;
}

// The stream of one request alone.
inline Stream RunAlone(TestEngine& engine, const wire::SequenceRequest& request,
                       Streams::PerStep per_step = Streams::PerStep::kOneEvent) {
  Streams streams = RunToEnd(*engine, {request}, per_step);
  EXPECT_THAT(streams.problems(), ::testing::IsEmpty());
  return streams[request.sequence.value()];
}

// Bitwise; whatever of it was cached or guessed.
inline void ExpectSame(const Stream& stream, const Stream& expected) {
  EXPECT_EQ(stream.tokens, expected.tokens);
  EXPECT_EQ(stream.finish, expected.finish);
  EXPECT_EQ(stream.stop_token, expected.stop_token);
  EXPECT_TRUE(Same(stream.prompt_logprobs, expected.prompt_logprobs));
  ASSERT_EQ(stream.logprobs.size(), expected.logprobs.size());
  for (size_t i = 0; i < expected.logprobs.size(); ++i) {
    ASSERT_EQ(stream.logprobs[i].has_value(), expected.logprobs[i].has_value());
    if (!expected.logprobs[i]) continue;
    EXPECT_TRUE(Same(*stream.logprobs[i], *expected.logprobs[i])) << "token " << i;
  }
}

// Requests that come and are cancelled at any time, until nothing is left to do; and all pages are
// somewhere after each step. `make(id)`: the request of this id; they are counted from 0. Returns
// the requests that were not cancelled, and the streams of all.
struct RandomWork {
  std::vector<wire::SequenceRequest> requests;
  Streams streams;
};
inline RandomWork RunAtRandom(TestEngine& engine, std::mt19937_64& random, int64_t count,
                              const std::function<wire::SequenceRequest(int64_t id)>& make,
                              Streams::PerStep per_step = Streams::PerStep::kOneEvent) {
  RandomWork work = {.requests = {}, .streams = Streams(per_step)};
  const auto num_come = [&] { return std::ssize(work.requests); };
  std::set<int64_t> cancelled;
  while (num_come() < count || engine->HasWork()) {
    while (num_come() < count && random() % 3 == 0) {
      work.requests.push_back(make(num_come()));
      Add(*engine, work.requests.back());
    }
    if (num_come() > 0 && random() % 20 == 0) {
      const auto victim = static_cast<int64_t>(random() % work.requests.size());
      cancelled.insert(victim);
      engine->Cancel(SequenceId(victim));
    }
    work.streams.Take(engine->Step());
    const wire::StepStats stats = engine->Stats();
    EXPECT_EQ(stats.pages_free + stats.pages_kv + stats.pages_adapter + stats.pages_prefix,
              stats.pages_total);
  }
  EXPECT_THAT(work.streams.problems(), ::testing::IsEmpty());
  std::erase_if(work.requests, [&](const wire::SequenceRequest& request) {
    return cancelled.contains(request.sequence.value());
  });
  return work;
}

// When nothing is left to do.
inline void ExpectAllPagesBack(TestEngine& engine) {
  const wire::StepStats stats = engine->Stats();
  EXPECT_EQ(stats.pages_kv, 0);
  EXPECT_EQ(stats.pages_free + stats.pages_adapter + stats.pages_prefix, stats.pages_total);
  EXPECT_THAT(stats.adapters, ::testing::IsEmpty());
  EXPECT_FALSE(engine->HasWork());
}

}  // namespace aril

#endif  // ARIL_ENGINE_TEST_SUPPORT_H_

// Steps that the device is given before the one before them has been waited for: every sequence
// gets what it gets where each step is waited for.

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/emulated_device.h"
#include "kernels/gemm/gemm_emulated.h"
#include "runner/local_runner.h"

namespace aril {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int32_t kVocab = 171;
constexpr int64_t kContext = 64;
constexpr int64_t kRoomy = 1 << 20;
constexpr int64_t kTight = 80 << 10;  // a little more than the two adapters that are used together

class StepsAhead : public ::testing::Test {
 public:
  ~StepsAhead() override { CopyAll(); }

 protected:
  std::unique_ptr<LocalRunner> MakeRunner(int64_t pool_bytes, int64_t max_num_seqs,
                                          kernels::emulator::Order order,
                                          int64_t format_work = FormatTurns::kWork,
                                          const DraftOptions& drafts = {}) {
    static const RealClock clock;
    auto runner = LocalRunner::Create(
        {.model_dir = model_dir_,
         .adapter_dirs = adapter_dirs_,
         .device = "cuda",
         .threads = 1,
         .max_num_seqs = max_num_seqs,
         .max_num_batched_tokens = 16,
         .max_model_len = kContext,
         .pool_bytes = pool_bytes,
         .min_cached_state_tokens = 1,
         .drafts = drafts,
         .make_token_table =
             [](const ModelSpec& spec) {
               return std::make_shared<const grammar::TokenTable>(
                   std::vector<std::string>(static_cast<size_t>(spec.vocab_size), "a"));
             },
         .format_work = format_work,
         .run_aside =
             [this](auto copy) {
               if (++num_copies_ % 2 == 0) return copy();
               aside_.push_back(std::move(copy));
             },
         .open_gpu =
             [order] {
               Gpu gpu;
               gpu.device = kernels::MakeEmulatedDevice(order, 2, int64_t{64} << 20);
               gpu.gemm = kernels::MakeEmulatedGemm(*gpu.device);
               return StatusOr<Gpu>(std::move(gpu));
             }},
        clock);
    CHECK(runner.ok());
    return *std::move(runner);
  }

  void Copy() {
    aside_.front()();
    aside_.pop_front();
  }
  void CopyAll() {
    while (!aside_.empty()) Copy();
  }

  std::string model_dir_ = kEngineTestModel;
  std::vector<std::string> adapter_dirs_ = {
      kEngineTestModel + "/adapters/all-r4", kEngineTestModel + "/adapters/down-r1",
      kEngineTestModel + "/adapters/head-embedding-r6",
      kEngineTestModel + "/adapters/activated-head-r4",
      SourcePath("tests/goldens-classifiers/llama-f32-sharded/three-labels-r4")};

  // Copies of adapters: each second one is made at once.
  std::deque<std::function<void()>> aside_;
  int64_t num_copies_ = 0;
};

// Greedy, or drawn on the device; now and then something that only the host knows. Some are alike,
// and fill equal pages side by side.
wire::SequenceRequest RandomRequest(int64_t id, std::mt19937_64& random) {
  const bool is_like_others = random() % 3 == 0;
  const std::vector<int32_t> prompt =
      is_like_others ? std::vector<int32_t>{3, 1, 4, 1, 5}
                     : RandomPrompt(random, 1 + static_cast<int64_t>(random() % 12));
  const auto adapter = static_cast<int32_t>(random() % (is_like_others ? 2 : 4)) - 1;
  auto request = GreedyRequest(id, prompt, static_cast<int32_t>(random() % 40), AdapterId(adapter));
  if (is_like_others) return request;
  if (random() % 8 == 0) request.adapters = {{AdapterId(0)}, {AdapterId(2), 0.5F}};
  if (random() % 6 == 0) {  // an activated one, within the prompt
    request.adapters = {{AdapterId(1)}, {AdapterId(3)}};
    request.prompt[random() % request.prompt.size()] = 150;
  }
  if (random() % 2 == 0) {
    request.sampling.temperature = 1.5F;
    request.sampling.top_p = random() % 2 == 0 ? 0.9F : 1.0F;
    request.sampling.seed = random();
  }
  for (int i = 0; i < 3; ++i)
    request.stop_token_ids.push_back(static_cast<int32_t>(random() % kVocab));
  switch (random() % 26) {
    case 0:
      request.sampling.num_logprobs = 2;
      request.sampling.prompt_logprobs = random() % 2 == 0;
      break;
    case 1:
      request.sampling.frequency_penalty = 0.5F;
      break;
    case 2:
      request.min_tokens = std::min(request.max_tokens, 3);
      break;
    case 3:
    case 4:
      request.format = {.kind = wire::OutputFormat::Kind::kRegex,
                        .source = StrCat("a{5,", 20 + id, "}")};
      break;
    case 5:
    case 6:
    case 7:
      request.max_tokens = 0;
      request.pooling = wire::Pooling::kEmbedding;
      break;
    case 8:
    case 9:
    case 10:
      request.max_tokens = 0;
      request.adapters = MixOf(AdapterId(4));
      request.pooling = wire::Pooling::kClassProbabilities;
      break;
    default:
      break;
  }
  return request;
}

TEST_F(StepsAhead, DoNotShow) {
  constexpr int64_t kRequests = 24;
  int64_t ahead = 0, evictions = 0, drops = 0, guessed = 0, embedded = 0, classified = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<wire::SequenceRequest> requests;
    for (int64_t id = 0; id < kRequests; ++id) requests.push_back(RandomRequest(id, random));

    const auto waiting = MakeRunner(kRoomy, 8, kernels::emulator::Order::kForward);
    // Who wants to see logits has every step waited for.
    waiting->engine().executor().SetLogitsObserver([](const auto&, auto) {});
    Streams expected;
    for (const wire::SequenceRequest& request : requests) Add(waiting->engine(), request);
    while (waiting->engine().HasWork()) {
      expected.Take(waiting->engine().Step());
      EXPECT_FALSE(waiting->engine().executor().is_under_way());
      CopyAll();
    }

    const auto runner = MakeRunner(
        seed % 2 == 0 ? kTight : kRoomy, 3 + static_cast<int64_t>(random() % 4),
        seed < 2 ? kernels::emulator::Order::kForward : kernels::emulator::Order::kBackward,
        seed == 0 ? FormatTurns::kWork : 1,
        // Few sequences have drafts, and wait for each step; many have none.
        seed < 3 ? DraftOptions() : DraftOptions{.max_tokens = 4, .min_match = 1, .max_rows = 4});
    Engine& engine = runner->engine();
    Streams streams(Streams::PerStep::kSeveral);
    std::set<int64_t> cancelled;
    size_t num_added = 0;
    while (num_added < requests.size() || engine.HasWork()) {
      while (num_added < requests.size() && random() % 3 == 0) Add(engine, requests[num_added++]);
      if (num_added > 0 && random() % 16 == 0) {
        const auto id = static_cast<int64_t>(random() % num_added);
        cancelled.insert(id);
        engine.Cancel(SequenceId(id));
      }
      streams.Take(engine.Step());
      ahead += engine.executor().is_under_way() ? 1 : 0;
      if (!aside_.empty() && (engine.IsStalled() || random() % 4 == 0)) Copy();
    }
    EXPECT_THAT(streams.problems(), IsEmpty());
    EXPECT_THAT(streams.all(), SizeIs(kRequests));
    for (auto& [id, stream] : streams.all()) {
      const Stream& alone = expected[id.value()];
      if (stream.finish == wire::FinishReason::kCancelled) {
        ASSERT_TRUE(cancelled.contains(id.value()));
        ASSERT_LE(stream.tokens.size(), alone.tokens.size());
        EXPECT_TRUE(std::equal(stream.tokens.begin(), stream.tokens.end(), alone.tokens.begin()))
            << "sequence " << id;
        continue;
      }
      EXPECT_EQ(stream.tokens, alone.tokens) << "sequence " << id;
      EXPECT_EQ(stream.pooled, alone.pooled) << "sequence " << id;
      EXPECT_EQ(stream.label, alone.label) << "sequence " << id;
      embedded += stream.pooled.empty() || !stream.label.empty() ? 0 : 1;
      classified += stream.label.empty() ? 0 : 1;
      EXPECT_EQ(stream.finish, alone.finish) << "sequence " << id;
      EXPECT_TRUE(Same(stream.prompt_logprobs, alone.prompt_logprobs)) << "sequence " << id;
    }
    EXPECT_EQ(engine.Stats().pages_kv, 0);
    evictions += engine.Stats().evictions;
    drops += engine.Stats().adapter_evictions;
    guessed += engine.Stats().num_accepted_tokens;
    CopyAll();
  }
  EXPECT_GT(ahead, 100);
  EXPECT_GT(evictions, 0);
  EXPECT_GT(drops, 3);
  EXPECT_GT(guessed, 0);
  EXPECT_GT(embedded, 3);
  EXPECT_GT(classified, 3);
}

// Of models whose sequences have a state, in which a row that is run again must not show, nor what
// others go on with.
TEST_F(StepsAhead, DoNotShowInStates) {
  model_dir_ = SourcePath("tests/goldens/qwen35-f32");
  adapter_dirs_ = {model_dir_ + "/adapters/all-r4", model_dir_ + "/adapters/gates-r3-bf16"};
  constexpr int32_t kTokens = 131;
  constexpr int64_t kFewStates = 120 << 10;
  constexpr int64_t kSomeStates = 200 << 10;
  int64_t ahead = 0, evictions = 0, hits = 0;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto waiting = MakeRunner(kRoomy, 8, kernels::emulator::Order::kForward);
    waiting->engine().executor().SetLogitsObserver([](const auto&, auto) {});
    std::vector<wire::SequenceRequest> requests;
    const std::vector<int32_t> opening = RandomPrompt(random, 18);
    for (int64_t id = 0; id < 10; ++id) {
      std::vector<int32_t> prompt = RandomPrompt(random, 1 + static_cast<int64_t>(random() % 24));
      std::copy_n(opening.begin(), id % 2 == 0 ? std::min<size_t>(prompt.size(), 18) : 0,
                  prompt.begin());
      for (int32_t& token : prompt) token %= kTokens;
      auto& request = requests.emplace_back(GreedyRequest(
          id, prompt, 38, AdapterId(id % 2 == 0 ? 0 : static_cast<int32_t>(id % 3) - 1)));
      if (id % 2 == 0) request.sampling = {.temperature = 1.5F, .seed = random()};
      request.stop_token_ids = {static_cast<int32_t>(random() % kTokens)};
      if (id % 4 == 3) {
        request.format = {.kind = wire::OutputFormat::Kind::kRegex,
                          .source = StrCat("a{5,", 20 + id, "}")};
      }
    }
    Streams expected;
    for (const wire::SequenceRequest& request : requests) Add(waiting->engine(), request);
    while (waiting->engine().HasWork()) {
      expected.Take(waiting->engine().Step());
      CopyAll();
    }
    const auto runner = MakeRunner(
        seed == 0 ? kFewStates : kSomeStates, 5,
        seed == 0 ? kernels::emulator::Order::kForward : kernels::emulator::Order::kBackward,
        /*format_work=*/1);
    Engine& engine = runner->engine();
    for (const wire::SequenceRequest& request : requests) Add(engine, request);
    // Who leaves a state is waited for.
    Streams streams(Streams::PerStep::kSeveral);
    while (engine.HasWork()) {
      streams.Take(engine.Step());
      ahead += engine.executor().is_under_way() ? 1 : 0;
      if (engine.IsStalled()) Copy();
    }
    EXPECT_THAT(streams.problems(), IsEmpty());
    EXPECT_THAT(streams.all(), SizeIs(requests.size()));
    hits += engine.Stats().prefix_hits;
    for (auto& [id, stream] : streams.all()) {
      EXPECT_EQ(stream.tokens, expected[id.value()].tokens) << "sequence " << id;
    }
    EXPECT_EQ(engine.Stats().pages_kv, 0);
    evictions += engine.Stats().evictions;
    CopyAll();
  }
  EXPECT_GT(ahead, 30);
  EXPECT_GT(evictions, 0);
  EXPECT_GT(hits, 0);
}

// A state is copied into pages that others have just left, whose rows a step under way had.
TEST_F(StepsAhead, KeepStatesWhileOthersEnd) {
  model_dir_ = SourcePath("tests/goldens/qwen35-f32");
  adapter_dirs_ = {};
  const std::vector<int32_t> first(12, 5), second(8, 6), ending(20, 7);
  std::vector<Stream> expected;
  int64_t ahead = 0, kept = 0;
  for (int64_t num_pages = 72; num_pages > 54; --num_pages) {
    SCOPED_TRACE(testing::Message() << num_pages << " pages");
    constexpr int64_t kPageBytes = 1024;
    const auto runner = MakeRunner(num_pages * kPageBytes, 4, kernels::emulator::Order::kForward);
    Engine& engine = runner->engine();
    ASSERT_EQ(engine.layout().page_bytes(), kPageBytes);
    RunToEnd(engine, {GreedyRequest(0, first, 1)});
    RunToEnd(engine, {GreedyRequest(1, second, 1)});
    // All rows of a step, and some of the next, which is the last; there two others stop.
    Add(engine, GreedyRequest(2, ending, 1));
    Streams streams(Streams::PerStep::kSeveral);
    streams.Take(engine.Step());
    Add(engine, GreedyRequest(3, first, 3));
    Add(engine, GreedyRequest(4, second, 3));
    while (engine.HasWork()) {
      streams.Take(engine.Step());
      ahead += engine.executor().is_under_way() ? 1 : 0;
    }
    EXPECT_THAT(streams.problems(), IsEmpty());
    if (expected.empty()) expected = {streams[2], streams[3], streams[4]};
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(streams[2 + i].tokens, expected[static_cast<size_t>(i)].tokens);
    }
    kept += engine.Stats().pages_prefix > 2 * engine.layout().state.num_pages() ? 1 : 0;
  }
  EXPECT_GT(ahead, 30);
  EXPECT_GT(kept, 5);
}

// Where a step under way may have begun reasoning or ended it, or spent its budget.
TEST_F(StepsAhead, DoNotShowInReasoningWithABudget) {
  int64_t ahead = 0, closed = 0;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto waiting = MakeRunner(kRoomy, 8, kernels::emulator::Order::kForward);
    waiting->engine().executor().SetLogitsObserver([](const auto&, auto) {});
    std::vector<wire::SequenceRequest> requests;
    for (int64_t id = 0; id < 12; ++id) {
      auto& request =
          requests.emplace_back(GreedyRequest(id, RandomPrompt(random, 1 + id % 5), 12));
      if (id % 2 == 0) request.sampling = {.temperature = 1.5F, .seed = random()};
    }
    // With tokens that come.
    Streams unbound = RunToEnd(waiting->engine(), requests);
    for (wire::SequenceRequest& request : requests) {
      const auto& tokens = unbound[request.sequence.value()].tokens;
      wire::ReasoningBudget& budget = request.reasoning_budget.emplace();
      budget.max_tokens = static_cast<int32_t>(random() % 5);
      if (random() % 2 == 0) budget.begin = tokens[random() % 5];
      budget.closing = {100, 101};
      if (random() % 3 == 0) budget.closing.back() = tokens[10];
      if (budget.begin == budget.closing.back()) budget.begin.reset();
    }
    Streams expected = RunToEnd(waiting->engine(), requests);

    const auto runner = MakeRunner(kTight, 5, kernels::emulator::Order::kBackward);
    Engine& engine = runner->engine();
    for (const wire::SequenceRequest& request : requests) Add(engine, request);
    Streams streams;
    while (engine.HasWork()) {
      streams.Take(engine.Step());
      ahead += engine.executor().is_under_way() ? 1 : 0;
      if (engine.IsStalled()) Copy();
    }
    EXPECT_THAT(streams.problems(), IsEmpty());
    for (auto& [id, stream] : streams.all()) {
      EXPECT_EQ(stream.tokens, expected[id.value()].tokens) << "sequence " << id;
      closed += stream.tokens == unbound[id.value()].tokens ? 0 : 1;
    }
  }
  EXPECT_GT(ahead, 10);
  EXPECT_GT(closed, 12);
}

TEST_F(StepsAhead, AreNotHeldUpByPredictions) {
  std::vector<int32_t> prediction;
  const auto count_drafts = [&](bool looks_back) {
    const auto runner = MakeRunner(kRoomy, 4, kernels::emulator::Order::kForward,
                                   FormatTurns::kWork, {.max_tokens = 4, .looks_back = looks_back});
    Engine& engine = runner->engine();
    auto request = GreedyRequest(0, {1, 2, 3}, 12);
    request.prediction = prediction;
    Streams streams = RunToEnd(engine, {request}, Streams::PerStep::kSeveral);
    prediction = streams[0].tokens;
    return engine.Stats().num_drafts;
  };
  EXPECT_EQ(count_drafts(false), 0);
  EXPECT_EQ(count_drafts(false), 0) << "with all of its tokens";
  EXPECT_GT(count_drafts(true), 0) << "steps wait for one another anyway";
}

// Sequences that fill equal pages side by side go on with one of them, and the other is free; but
// not for an adapter, whose copy waits for nobody, before the step that still reads it has run.
TEST_F(StepsAhead, ReadNoPageThatAnAdapterHasGot) {
  const std::vector<int32_t> prompt = {3, 1, 4};
  std::vector<int32_t> expected;
  for (int before = 0; before < 12; ++before) {
    SCOPED_TRACE(testing::Message() << "an adapter comes after " << before << " steps");
    num_copies_ = 1;  // the next one is made at once
    const auto runner = MakeRunner(kRoomy, 4, kernels::emulator::Order::kForward);
    Engine& engine = runner->engine();
    Streams streams;
    for (const int64_t id : {0, 1}) Add(engine, GreedyRequest(id, prompt, 20));
    for (int step = 0; step < before; ++step) streams.Take(engine.Step());
    Add(engine, GreedyRequest(2, prompt, 1, AdapterId(1)));
    while (engine.HasWork()) streams.Take(engine.Step());
    EXPECT_EQ(num_copies_, 2);
    if (expected.empty()) expected = streams[0].tokens;
    for (const int64_t id : {0, 1}) EXPECT_EQ(streams[id].tokens, expected) << "sequence " << id;
  }
}

// What the host must choose is chosen, and the next step begins with it.
TEST_F(StepsAhead, AreNotGivenWhereTheHostChooses) {
  const auto runner = MakeRunner(kRoomy, 4, kernels::emulator::Order::kForward);
  Engine& engine = runner->engine();
  auto request = GreedyRequest(0, {1, 2, 3}, 4);
  request.sampling.num_logprobs = 1;
  Add(engine, request);
  Streams streams;
  while (engine.HasWork()) {
    streams.Take(engine.Step());
    EXPECT_FALSE(engine.executor().is_under_way());
  }
  EXPECT_EQ(streams[0].tokens.size(), 4);
}

// A runner that goes while its device still has a step to run.
TEST_F(StepsAhead, AreWaitedForInTheEnd) {
  const auto runner = MakeRunner(kRoomy, 4, kernels::emulator::Order::kForward);
  Add(runner->engine(), GreedyRequest(0, {1, 2, 3}, 4));
  EXPECT_THAT(runner->engine().Step(), IsEmpty());
  EXPECT_TRUE(runner->engine().executor().is_under_way());
  runner->engine().Cancel(SequenceId(0));
  EXPECT_THAT(runner->engine().Step(), SizeIs(1));
}

}  // namespace
}  // namespace aril

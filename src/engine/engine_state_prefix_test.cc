// States that are kept for sequences that begin alike: who goes on from which, that nothing of an
// answer changes by it, and that they give way when pages run short.

#include <random>
#include <vector>

#include "base/strings.h"
#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::IsEmpty;

const std::string kModel = SourcePath("tests/goldens/qwen35-f32");
constexpr int32_t kVocab = 131;

TestEngineOptions OfState(bool caches) {
  TestEngineOptions options;
  options.model_dir = kModel;
  options.adapter_dirs = {kModel + "/adapters/all-r4", kModel + "/adapters/gates-r3-bf16"};
  options.engine.num_pages = 1600;
  options.engine.enable_prefix_caching = caches;
  options.engine.min_cached_state_tokens = 12;
  return options;
}

std::vector<int32_t> Concat(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class EngineStatePrefix : public ::testing::Test {
 protected:
  wire::SequenceRequest Request(std::vector<int32_t> prompt, int32_t max_tokens = 5,
                                AdapterId adapter = kBaseModel) {
    wire::SequenceRequest request =
        GreedyRequest(next_id_++, std::move(prompt), max_tokens, adapter);
    request.sampling.num_logprobs = 3;
    return request;
  }
  std::vector<int32_t> Prompt(int64_t length) {
    std::vector<int32_t> prompt = RandomPrompt(random_, length);
    for (int32_t& token : prompt) token %= kVocab;
    return prompt;
  }
  // Alone; what it gets is what an engine gives that keeps nothing.
  Stream Run(const wire::SequenceRequest& request) {
    Stream stream = RunAlone(engine_, request);
    const Stream expected = RunAlone(without_cache_, request);
    ExpectSame(stream, expected);
    EXPECT_EQ(expected.num_cached, 0);
    return stream;
  }
  // Tokens of full pages.
  int64_t Full(int64_t tokens) const {
    return tokens / engine_.page_tokens() * engine_.page_tokens();
  }
  int64_t state_pages() const { return engine_.layout().state.num_pages(); }

  std::mt19937_64 random_{13};
  int64_t next_id_ = 0;
  TestEngine engine_{OfState(true)}, without_cache_{OfState(false)};
};

TEST_F(EngineStatePrefix, ARepeatedPromptGoesOnFromItsLastFullPage) {
  ASSERT_GT(engine_.page_tokens(), 1);
  for (const int64_t length : {2 * 16 + 1, 2 * 16, 2 * 16 - 1}) {
    const std::vector<int32_t> prompt = Prompt(length);
    EXPECT_EQ(Run(Request(prompt)).num_cached, 0);
    EXPECT_EQ(Run(Request(prompt)).num_cached, Full(length - 1));
    EXPECT_EQ(Run(Request(prompt, 1)).num_cached, Full(length - 1)) << "as often as one likes";
  }
  EXPECT_FALSE(without_cache_->caches_prefixes());
  EXPECT_EQ(without_cache_->Stats().pages_prefix, 0);
  ExpectAllPagesBack(engine_);
}

TEST_F(EngineStatePrefix, TheNextTurnGoesOnFromThePromptBefore) {
  std::vector<int32_t> conversation = Prompt(20);
  int64_t expected = 0;
  for (int turn = 0; turn < 4; ++turn) {
    const Stream stream = Run(Request(conversation, 8));
    EXPECT_EQ(stream.num_cached, expected) << "turn " << turn;
    expected = Full(std::ssize(conversation) - 1);
    conversation = Concat(Concat(conversation, stream.tokens), Prompt(9));
  }
}

// The first one does not know where the others will go another way, the second one does.
TEST_F(EngineStatePrefix, ACommonBeginningIsKeptByTheSecondThatHasIt) {
  const std::vector<int32_t> system = Prompt(42);
  EXPECT_EQ(Run(Request(Concat(system, Prompt(17)))).num_cached, 0);
  EXPECT_EQ(Run(Request(Concat(system, Prompt(21)))).num_cached, 0);
  for (const int64_t length : {1, 2, 30}) {
    EXPECT_EQ(Run(Request(Concat(system, Prompt(length)))).num_cached, Full(42));
  }
}

TEST_F(EngineStatePrefix, ShortOnesAreNotKept) {
  const int64_t shortest = OfState(true).engine.min_cached_state_tokens;
  const std::vector<int32_t> prompt = Prompt(shortest);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run(Request(prompt)).num_cached, 0);
  EXPECT_EQ(engine_->Stats().pages_prefix, 0);

  // Nor what is a few tokens behind another.
  const std::vector<int32_t> longer = Prompt(40);
  Run(Request(longer));
  const int64_t kept = engine_->Stats().pages_prefix;
  EXPECT_EQ(kept, Full(39) / engine_.page_tokens() + state_pages());
  const std::vector<int32_t> still_longer =
      Concat(longer, Prompt(shortest - engine_.page_tokens() - 1));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run(Request(still_longer)).num_cached, Full(39));
  EXPECT_EQ(engine_->Stats().pages_prefix, kept);
}

TEST_F(EngineStatePrefix, NothingIsSharedAcrossAdaptersAndTenants) {
  const std::vector<int32_t> prompt = Prompt(30);
  for (const int32_t adapter : {-1, 0, 1}) {
    for (const char* tenant : {"default", "acme"}) {
      auto request = Request(prompt, 5, AdapterId(adapter));
      request.tenant = tenant;
      EXPECT_EQ(Run(request).num_cached, 0) << tenant << ", adapter " << adapter;
      EXPECT_EQ(Run(request).num_cached, Full(29)) << "its own";
    }
  }
}

TEST_F(EngineStatePrefix, WhoWantsThePromptsLogprobsComputesItAll) {
  const std::vector<int32_t> prompt = Prompt(30);
  auto request = Request(prompt);
  request.sampling.prompt_logprobs = true;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run(request).num_cached, 0);
  EXPECT_EQ(Run(Request(prompt)).num_cached, Full(29)) << "others may have what it leaves";
}

// Several at a time, of which none may see what another does to its state.
TEST_F(EngineStatePrefix, EachGoesOnByItself) {
  const std::vector<int32_t> system = Prompt(40);
  Run(Request(system));
  std::vector<wire::SequenceRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(Request(Concat(system, Prompt(1 + i)), 10));
  Streams together = RunToEnd(*engine_, requests);
  EXPECT_THAT(together.problems(), IsEmpty());
  for (const auto& request : requests) {
    const Stream& stream = together[request.sequence.value()];
    EXPECT_EQ(stream.num_cached, Full(39));
    ExpectSame(stream, RunAlone(without_cache_, request));
  }
  ExpectAllPagesBack(engine_);
}

// Where there is no room for a copy, it goes on with what was kept.
TEST_F(EngineStatePrefix, WithoutRoomItIsKeptNoLonger) {
  const std::vector<int32_t> prompt = Prompt(33);
  TestEngineOptions small = OfState(true);
  const int64_t pages_of_one = (33 + 5) / engine_.page_tokens() + 1;
  ASSERT_GT(state_pages(), 6);
  small.engine.num_pages = static_cast<int32_t>(2 * state_pages() + pages_of_one + 6);
  TestEngine engine(small);
  EXPECT_EQ(RunAlone(engine, Request(prompt)).num_cached, 0);
  EXPECT_EQ(RunAlone(engine, Request(prompt)).num_cached, 32) << "a copy";
  Add(*engine, Request(Prompt(2), 12));
  engine->Step();
  const auto request = Request(prompt);
  Add(*engine, request);
  Streams streams;
  while (engine->HasWork()) streams.Take(engine->Step());
  EXPECT_EQ(streams[request.sequence.value()].num_cached, 32);
  ExpectSame(streams[request.sequence.value()], RunAlone(without_cache_, request));
  EXPECT_EQ(engine->Stats().evictions, 0);
  EXPECT_EQ(RunAlone(engine, Request(prompt)).num_cached, 0);
}

// Prompts that begin alike come and go, in chunks, and pages are taken away: with room for what
// runs, or hardly more than for one.
TEST_F(EngineStatePrefix, IsAsIfNothingWereKept) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  int64_t hits = 0, evictions = 0;
  for (const int64_t num_states : {1, 3, 4, 5, 6}) {
    SCOPED_TRACE(testing::Message() << num_states << " states");
    TestEngineOptions tight = OfState(true);
    tight.engine.max_num_batched_tokens = 8 + static_cast<int64_t>(random() % 20);
    tight.engine.min_cached_state_tokens = 1 + static_cast<int64_t>(random() % 12);
    const int64_t context_pages = 128 / engine_.page_tokens();
    tight.engine.num_pages =
        static_cast<int32_t>(num_states * state_pages() + context_pages +
                             engine_->PagesFor(AdapterId(0)) + static_cast<int64_t>(random() % 10));
    TestEngine engine(tight);
    std::vector<std::vector<int32_t>> openings;
    for (int i = 0; i < 2; ++i)
      openings.push_back(Prompt(20 + static_cast<int64_t>(random() % 30)));
    RandomWork work = RunAtRandom(engine, random, 60, [&](int64_t id) {
      std::vector<int32_t> prompt = openings[random() % 2];
      prompt.resize(1 + prompt.size() - random() % 15);
      prompt = Concat(prompt, Prompt(static_cast<int64_t>(random() % 30)));
      auto request = GreedyRequest(id, prompt, 8 + static_cast<int32_t>(random() % 40),
                                   AdapterId(random() % 3 == 0 ? 0 : -1));
      request.sampling = {.temperature = 1, .seed = random(), .num_logprobs = 2};
      return request;
    });
    ExpectAllPagesBack(engine);
    hits += engine->Stats().prefix_hits;
    evictions += engine->Stats().evictions;
    for (const auto& request : work.requests) {
      ExpectSame(work.streams[request.sequence.value()], RunAlone(without_cache_, request));
    }
  }
  EXPECT_GT(hits, 0);
  EXPECT_GT(evictions, 0);
}

}  // namespace
}  // namespace aril

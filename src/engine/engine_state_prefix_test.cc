// States that are kept for sequences that begin alike: who goes on from which, that nothing of an
// answer changes by it, and that they give way when pages run short.

#include <random>
#include <vector>

#include "base/strings.h"
#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "grammar/format_cache.h"
#include "grammar/token_table.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::IsEmpty;

const std::string kModel = SourcePath("tests/goldens/qwen35-f32");
constexpr int32_t kVocab = 131;

TestEngineOptions OfState(bool caches) {
  TestEngineOptions options;
  options.model_dir = kModel;
  options.adapter_dirs = {kModel + "/adapters/all-r4", kModel + "/adapters/gates-r3-bf16",
                          kModel + "/adapters/activated-r4"};
  options.engine.num_pages = 1600;
  options.engine.enable_prefix_caching = caches;
  options.engine.min_cached_state_tokens = 12;
  std::vector<std::string> texts(kVocab, "a");
  texts.back().clear();
  options.engine.formats =
      std::make_shared<grammar::FormatCache>(std::make_shared<const grammar::TokenTable>(texts));
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

// The second one keeps what the third one goes on from.
TEST_F(EngineStatePrefix, ARepeatedPromptGoesOnFromItsLastFullPage) {
  ASSERT_GT(engine_.page_tokens(), 1);
  for (const int64_t length : {2 * 16 + 1, 2 * 16, 2 * 16 - 1}) {
    const std::vector<int32_t> prompt = Prompt(length);
    EXPECT_EQ(Run(Request(prompt)).num_cached, 0);
    EXPECT_EQ(Run(Request(prompt)).num_cached, 0);
    EXPECT_EQ(Run(Request(prompt)).num_cached, Full(length - 1));
    EXPECT_EQ(Run(Request(prompt, 1)).num_cached, Full(length - 1)) << "as often as one likes";
  }
  EXPECT_FALSE(without_cache_->caches_prefixes());
  EXPECT_EQ(without_cache_->Stats().pages_prefix, 0);
  ExpectAllPagesBack(engine_);
}

TEST_F(EngineStatePrefix, ATurnGoesOnFromTheAnswerBeforeTheLast) {
  std::vector<int32_t> conversation = Prompt(20);
  std::vector<int64_t> computed = {0, 0};  // in the turns so far
  for (int turn = 0; turn < 5; ++turn) {
    const Stream stream = Run(Request(conversation, 8));
    EXPECT_EQ(stream.num_cached, Full(computed[computed.size() - 2])) << "turn " << turn;
    conversation = Concat(conversation, stream.tokens);
    computed.push_back(std::ssize(conversation) - 1);
    conversation = Concat(conversation, Prompt(9));
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
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(Request(prompt, 1)).num_cached, 0);
  EXPECT_EQ(engine_->Stats().pages_prefix, shortest / engine_.page_tokens());

  const std::vector<int32_t> just_long_enough = Prompt(shortest + 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(Request(just_long_enough, 1)).num_cached, i < 2 ? 0 : shortest);
  }

  // Nor what is a few tokens behind another.
  const std::vector<int32_t> longer = Prompt(40);
  for (int i = 0; i < 2; ++i) Run(Request(longer, 1));
  const int64_t kept = engine_->Stats().pages_prefix;
  EXPECT_EQ(kept, (2 * shortest + 40) / engine_.page_tokens() + 2 * state_pages());
  const std::vector<int32_t> still_longer =
      Concat(longer, Prompt(shortest - engine_.page_tokens() - 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(Request(still_longer, 1)).num_cached, Full(39));
  EXPECT_EQ(engine_->Stats().pages_prefix,
            kept + std::ssize(still_longer) / engine_.page_tokens() - 40 / engine_.page_tokens());
}

TEST_F(EngineStatePrefix, NothingIsSharedAcrossAdaptersAndTenants) {
  const std::vector<int32_t> prompt = Prompt(30);
  for (const int32_t adapter : {-1, 0, 1}) {
    for (const char* tenant : {"default", "acme"}) {
      auto request = Request(prompt, 5, AdapterId(adapter));
      request.tenant = tenant;
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(Run(request).num_cached, 0) << tenant << ", adapter " << adapter;
      }
      EXPECT_EQ(Run(request).num_cached, Full(29)) << "its own";
    }
  }
}

TEST_F(EngineStatePrefix, WhoWantsThePromptsLogprobsComputesItAll) {
  const std::vector<int32_t> prompt = Prompt(30);
  auto request = Request(prompt);
  request.sampling.prompt_logprobs = true;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run(request).num_cached, 0);
  EXPECT_EQ(Run(Request(prompt)).num_cached, 0) << "it kept no state";
  EXPECT_EQ(Run(Request(prompt)).num_cached, Full(29));
}

// Several at a time, of which none may see what another does to its state.
TEST_F(EngineStatePrefix, EachGoesOnByItself) {
  const std::vector<int32_t> system = Prompt(40);
  for (int i = 0; i < 2; ++i) Run(Request(system));
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

// The last row alone stands behind the stop, and is run again until its format is ready.
TEST_F(EngineStatePrefix, MayStandBeforeARowThatIsRunAgain) {
  TestEngineOptions slow = OfState(true);
  slow.engine.format_work = 1;
  TestEngine engine(slow);
  const std::vector<int32_t> prompt = Prompt(4 * engine_.page_tokens() + 1);
  RunAlone(engine, Request(prompt, 1));
  std::vector<wire::SequenceRequest> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(Request(prompt, 8));
    requests.back().format = {.kind = wire::OutputFormat::Kind::kRegex,
                              .source = StrCat("a{5,", 20 + i, "}")};
  }
  int64_t num_waiting = 0;
  for (const auto& request : requests) Add(*engine, request);
  Streams streams;
  while (engine->HasWork()) {
    streams.Take(engine->Step());
    num_waiting += engine->Stats().num_rows < std::ssize(requests) ? 1 : 0;
  }
  EXPECT_GT(num_waiting, 0) << "nobody sat out";
  for (const auto& request : requests) {
    ExpectSame(streams[request.sequence.value()], RunAlone(without_cache_, request));
  }
  EXPECT_EQ(RunAlone(engine, Request(prompt)).num_cached, std::ssize(prompt) - 1);
}

// Of an adapter that begins within a sequence: what is before its first page is anybody's, and the
// rest nobody else's.
TEST_F(EngineStatePrefix, IsSharedUpToWhereAnAdapterBegins) {
  for (const int64_t first : {22, 23, 24, 25}) {
    SCOPED_TRACE(first);
    std::vector<int32_t> prompt = Prompt(30);
    std::ranges::replace(prompt, 7, 8);
    EXPECT_EQ(Run(Request(prompt)).num_cached, 0);
    std::ranges::copy(std::vector<int32_t>{7, 7, 9}, prompt.begin() + first);
    const AdapterId activated(2);
    EXPECT_EQ(Run(Request(prompt, 3, activated)).num_cached, 0);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(Run(Request(prompt, 3, activated)).num_cached, Full(first));
      EXPECT_EQ(Run(Request(prompt, 3)).num_cached, Full(first)) << "the same tokens without it";
    }
  }
}

// Nor does anybody give way for it.
TEST_F(EngineStatePrefix, IsNotKeptInPagesThatOthersWillWant) {
  const std::vector<int32_t> prompt = Prompt(33), other = Prompt(40);
  TestEngineOptions small = OfState(true);
  small.engine.max_num_batched_tokens = 40;
  // Of both of them, and of another state, or but for one.
  const int64_t pages = 33 / engine_.page_tokens() + 1 + 40 / engine_.page_tokens();
  for (const int64_t more : {-1, 0}) {
    SCOPED_TRACE(more);
    small.engine.num_pages = static_cast<int32_t>(3 * state_pages() + pages + more);
    TestEngine engine(small);
    RunAlone(engine, Request(prompt, 1));
    Add(*engine, Request(prompt, 1));
    Add(*engine, Request(other, 1));
    engine->Step();
    // Of K and V all are in use.
    EXPECT_EQ(engine->Stats().pages_prefix, more < 0 ? 0 : state_pages());
    while (engine->HasWork()) engine->Step();
    EXPECT_EQ(engine->Stats().evictions, 0);
    EXPECT_EQ(RunAlone(engine, Request(prompt, 1)).num_cached, more < 0 ? 0 : 32);
  }
}

// Where there is no room for a copy, it goes on with what was kept.
TEST_F(EngineStatePrefix, WithoutRoomItIsKeptNoLonger) {
  const std::vector<int32_t> prompt = Prompt(33);
  TestEngineOptions small = OfState(true);
  const int64_t pages_of_one = (33 + 5) / engine_.page_tokens() + 1;
  ASSERT_GT(state_pages(), 6);
  small.engine.num_pages = static_cast<int32_t>(2 * state_pages() + pages_of_one + 6);
  TestEngine engine(small);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(RunAlone(engine, Request(prompt)).num_cached, 0);
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
    tight.engine.format_work = num_states % 2 == 0 ? 1 : FormatTurns::kWork;
    tight.engine.shares_rows = num_states > 3;
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
      const bool is_pooled = random() % 8 == 0;
      auto request =
          GreedyRequest(id, prompt, is_pooled ? 0 : 8 + static_cast<int32_t>(random() % 40),
                        AdapterId(random() % 3 == 0 ? 0 : -1));
      request.sampling = {.temperature = 1, .seed = random(), .num_logprobs = 2};
      request.tenant = StrCat(random() % 4 == 0);
      if (is_pooled) {
        request.pooling = wire::Pooling::kEmbedding;
        return request;
      }
      if (random() % 6 == 0) request.sampling.prompt_logprobs = true;
      if (random() % 3 == 0) {
        request.format = {.kind = wire::OutputFormat::Kind::kRegex,
                          .source = StrCat("a{5,", 20 + id, "}")};
      }
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

// Guessed tokens change when a token comes, and never which.

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "grammar/format_cache.h"
#include "grammar/token_table.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kRequests = 24;
constexpr auto kSeveral = Streams::PerStep::kSeveral;

// Wrong ones are tried as well, and as often as there is a row.
DraftOptions Eager() {
  return {
      .max_tokens = 6, .min_match = 1, .max_match = 3, .max_rows = 40, .rows_of_step = 1'000'000};
}

// Whatever a request may ask for that looks at what is before a token. Few tokens are likely, so
// that texts repeat themselves.
wire::SequenceRequest RandomRequest(int64_t id, std::mt19937_64& random) {
  std::vector<int32_t> prompt = RandomPrompt(random, 1 + static_cast<int64_t>(random() % 20));
  const std::vector<int32_t> again = prompt;
  if (random() % 2 == 0) prompt.insert(prompt.end(), again.begin(), again.end());
  const AdapterId adapter(static_cast<int32_t>(random() % 4) - 1);
  auto request = GreedyRequest(id, prompt, static_cast<int32_t>(random() % 60), adapter);
  wire::SamplingParams& sampling = request.sampling;
  if (random() % 2 == 0) {
    sampling.temperature = random() % 2 == 0 ? 0.3F : 0.8F;
    sampling.top_k = 4;
    sampling.seed = random();
  }
  if (random() % 3 == 0) sampling.repetition_penalty = 1.05F;
  if (random() % 3 == 0) sampling.presence_penalty = 0.1F;
  if (random() % 3 == 0) sampling.frequency_penalty = 0.05F;
  if (random() % 4 == 0) {
    sampling.bad_words = {{static_cast<int32_t>(random() % 171)}};
    for (int32_t first = 0; first < 171; ++first) {  // one of which is likely to be said
      sampling.bad_words.push_back({first, static_cast<int32_t>(random() % 171)});
    }
  }
  if (random() % 4 == 0) {
    const auto every = 1 + static_cast<int32_t>(random() % 9);
    for (int32_t t = 0; t < 171; t += every) sampling.allowed_token_ids.push_back(t);
  }
  if (random() % 3 == 0) sampling.num_logprobs = 2;
  if (random() % 4 == 0) sampling.prompt_logprobs = true;
  if (random() % 3 == 0) sampling.logit_bias = {{static_cast<int32_t>(random() % 171), 30.0F}};
  for (int i = 0; i < 2; ++i)
    request.stop_token_ids.push_back(static_cast<int32_t>(random() % 171));
  if (random() % 3 == 0) request.min_tokens = static_cast<int32_t>(random() % 30);
  // A stop token that is likely, and may be one from the middle of a draft on.
  if (random() % 3 == 0) sampling.logit_bias.emplace_back(request.stop_token_ids[0], 3.0F);
  return request;
}

std::vector<wire::SequenceRequest> RandomRequests(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<wire::SequenceRequest> requests;
  for (int64_t id = 0; id < kRequests; ++id) requests.push_back(RandomRequest(id, random));
  return requests;
}

// What random requests get where nothing is guessed.
struct WithoutDrafts {
  explicit WithoutDrafts(uint64_t seed) : requests(RandomRequests(seed)) {
    TestEngine engine({});
    streams = RunToEnd(*engine, requests);
    num_steps = engine->Stats().step;
  }

  std::vector<wire::SequenceRequest> requests;
  Streams streams;
  int64_t num_steps = 0;
};

void ExpectSame(Streams& streams, Streams& expected) {
  EXPECT_THAT(streams.problems(), IsEmpty());
  for (int64_t id = 0; id < kRequests; ++id) {
    SCOPED_TRACE(testing::Message() << "sequence " << id);
    ExpectSame(streams[id], expected[id]);
  }
}

TEST(EngineDrafts, ChangeNoTokenNorWhatIsSaidAboutIt) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    WithoutDrafts without(seed);
    TestEngineOptions options;
    options.engine.drafts = Eager();
    TestEngine engine(options);
    Streams streams = RunToEnd(*engine, without.requests, kSeveral);
    ExpectSame(streams, without.streams);
    ExpectAllPagesBack(engine);
    const wire::StepStats stats = engine->Stats();
    EXPECT_LT(stats.step, without.num_steps);
    EXPECT_GT(stats.num_accepted_tokens, 0);
    EXPECT_GT(stats.num_draft_tokens, stats.num_accepted_tokens) << "wrong ones, too";
    EXPECT_GE(stats.num_draft_tokens, stats.num_drafts);
  }
}

// Evicted ones come back to what they were; what is cached is what was computed.
TEST(EngineDrafts, ChangeNothingWherePagesAreScarce) {
  int64_t evictions = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    WithoutDrafts without(seed);
    TestEngineOptions options;
    options.engine.drafts = Eager();
    options.engine.num_pages = 110;
    options.engine.max_num_seqs = 4 + static_cast<int64_t>(seed);
    TestEngine engine(options);
    Streams streams = RunToEnd(*engine, without.requests, kSeveral);
    ExpectSame(streams, without.streams);
    EXPECT_GT(engine->Stats().num_accepted_tokens, 0);
    // And once more, on what the others left in the cache.
    streams = RunToEnd(*engine, without.requests, kSeveral);
    ExpectSame(streams, without.streams);
    ExpectAllPagesBack(engine);
    evictions += engine->Stats().evictions;
  }
  EXPECT_GT(evictions, 0);
}

class EnginePredictions : public ::testing::Test {
 protected:
  static constexpr int32_t kLength = 32;

  // And how many steps it took.
  std::pair<Stream, int64_t> Run(const std::vector<int32_t>& prediction) {
    TestEngineOptions options;
    options.engine.drafts = {.max_tokens = 8, .looks_back = false};
    TestEngine engine(options);
    auto request = GreedyRequest(0, {1, 17, 42, 99, 5, 63, 28}, kLength);
    request.prediction = prediction;
    Stream stream = RunAlone(engine, request, kSeveral);
    return {std::move(stream), engine->Stats().step};
  }

  const std::vector<int32_t> tokens_ = Run({}).first.tokens;
};

TEST_F(EnginePredictions, MakeTokensComeSooner) {
  ASSERT_EQ(Run({}).second, kLength) << "without one nothing is guessed";
  const auto [stream, steps] = Run(tokens_);
  EXPECT_EQ(stream.tokens, tokens_);
  EXPECT_LE(steps, 1 + (kLength - 1 + 4) / 5);
  EXPECT_GT(stream.prediction_use.num_accepted, kLength / 2);
  EXPECT_EQ(stream.prediction_use.num_rejected, 0);
  EXPECT_EQ(stream.prediction_use.num_accepted + steps, kLength) << "a step has one besides";
}

TEST_F(EnginePredictions, EndWhereTheSequenceDoes) {
  TestEngineOptions options;
  options.engine.drafts = {.max_tokens = 8, .looks_back = false};
  TestEngine engine(options);
  auto request = GreedyRequest(0, {1, 17, 42, 99, 5, 63, 28}, kLength);
  request.prediction = tokens_;
  request.stop_token_ids = {tokens_[17]};
  const auto end = std::find(tokens_.begin(), tokens_.end(), tokens_[17]) + 1;
  const Stream stream = RunAlone(engine, request, kSeveral);
  EXPECT_EQ(stream.tokens, std::vector(tokens_.begin(), end));
  EXPECT_EQ(stream.finish, wire::FinishReason::kStop);
  EXPECT_EQ(stream.prediction_use.num_rejected, 0) << "what is behind was neither right nor wrong";
  ExpectAllPagesBack(engine);
}

TEST_F(EnginePredictions, MayBeWrongAndRightAgain) {
  std::vector<int32_t> prediction = tokens_;
  prediction[12] = (prediction[12] + 1) % 171;
  prediction.insert(prediction.begin() + 20, {7, 7, 7});
  const auto [stream, steps] = Run(prediction);
  EXPECT_EQ(stream.tokens, tokens_);
  EXPECT_LT(steps, kLength / 2);
  EXPECT_GT(stream.prediction_use.num_rejected, 0);

  const auto [other, other_steps] = Run(std::vector<int32_t>(kLength, tokens_[0]));
  EXPECT_EQ(other.tokens, tokens_);
}

TEST_F(EnginePredictions, MustHaveTokensOfTheVocabulary) {
  TestEngine engine({});
  auto request = GreedyRequest(0, {1, 2, 3}, 4);
  request.prediction = {3, 100'000};
  EXPECT_THAT(Message(engine->Accept(request).status()),
              testing::HasSubstr("the prediction: token id 100000 is outside the vocabulary"));
}

// Each token is a letter, so that a format lets few follow.
std::vector<std::string> Letters() {
  std::vector<std::string> texts(171);
  for (size_t t = 0; t < 160; ++t) texts[t] = std::string(1, static_cast<char>('a' + t % 26));
  return texts;
}

TEST(EngineDrafts, KeepToFormats) {
  const auto table = std::make_shared<const grammar::TokenTable>(Letters());
  int64_t right = 0;
  int64_t wrong = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<wire::SequenceRequest> requests;
    for (int64_t id = 0; id < kRequests; ++id) {
      auto& request = requests.emplace_back(RandomRequest(id, random));
      const std::string formats[] = {"(ab|ac|xyz)*", "[a-d]*(x|y)", "(hello){1,9}", "a[^b]{3,12}b"};
      request.format = {.kind = wire::OutputFormat::Kind::kRegex, .source = formats[random() % 4]};
      if (random() % 4 == 0) request.format = {};
      if (request.format.is_text()) continue;
      request.sampling.bad_words.clear();
      request.sampling.allowed_token_ids.clear();
    }
    TestEngineOptions options;
    options.engine.formats = std::make_shared<grammar::FormatCache>(table);
    TestEngine without(options);
    Streams expected = RunToEnd(*without, requests);

    options.engine.formats = std::make_shared<grammar::FormatCache>(table);
    options.engine.format_work = seed % 2 == 0 ? FormatTurns::kWork : 1;
    options.engine.drafts = Eager();
    TestEngine engine(options);
    Streams streams = RunToEnd(*engine, requests, kSeveral);
    ExpectSame(streams, expected);
    ExpectAllPagesBack(engine);
    right += engine->Stats().num_accepted_tokens;
    wrong += engine->Stats().num_draft_tokens - engine->Stats().num_accepted_tokens;
  }
  EXPECT_GT(right, 100);
  EXPECT_GT(wrong, 10);
}

// What is known of a format may be forgotten between a guess and its step; a sequence may have to
// sit out while others have been where it wants to go.
TEST(EngineDrafts, KeepToFormatsOfWhichLittleIsKept) {
  for (const int64_t num_automata : {1, 300'000, 100'000'000}) {
    for (const int64_t format_work : {int64_t{1}, FormatTurns::kWork}) {
      SCOPED_TRACE(testing::Message() << num_automata << " automata, work of " << format_work);
      std::vector<wire::SequenceRequest> requests;
      for (int64_t id = 0; id < kRequests; ++id) {
        auto& request =
            requests.emplace_back(GreedyRequest(id, {1, 2, static_cast<int32_t>(id)}, 30));
        const std::string formats[] = {"(hello|help|held){3,9}", "a{4,20}b?", "([ab]c[de]f)*"};
        request.format = {.kind = wire::OutputFormat::Kind::kRegex, .source = formats[id % 3]};
        if (id % 2 == 0) request.sampling = {.temperature = 1, .seed = static_cast<uint64_t>(id)};
      }
      TestEngineOptions options;
      const auto table = std::make_shared<const grammar::TokenTable>(Letters());
      options.engine.formats = std::make_shared<grammar::FormatCache>(table);
      TestEngine without(options);
      Streams expected = RunToEnd(*without, requests);

      const auto memory = std::make_shared<grammar::FormatMemory>();
      memory->AddAutomata(num_automata);  // which leave little for each
      options.engine.formats = std::make_shared<grammar::FormatCache>(table, memory);
      options.engine.format_work = format_work;
      options.engine.drafts = Eager();
      TestEngine engine(options);
      // And most of it is as predicted.
      for (wire::SequenceRequest& request : requests) {
        request.prediction = expected[request.sequence.value()].tokens;
        Add(*engine, request);
      }
      Streams streams(kSeveral);
      for (int step = 0; step < 10'000 && engine->HasWork(); ++step) streams.Take(engine->Step());
      ExpectSame(streams, expected);
      ExpectAllPagesBack(engine);
    }
  }
}

}  // namespace
}  // namespace aril

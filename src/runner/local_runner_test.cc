// From files and flags to a runner: what is refused, and how the pool is sized.

#include "runner/local_runner.h"

#include <functional>

#include "base/checked.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");
const std::string kAdapters = kModel + "/adapters/";

LocalRunnerOptions Options() {
  return {.model_dir = kModel,
          .adapter_dirs = {kAdapters + "all-r4", kAdapters + "down-r1"},
          .threads = 1,
          .max_num_seqs = 4,
          .max_num_batched_tokens = 16};
}

StatusOr<std::unique_ptr<LocalRunner>> Create(const LocalRunnerOptions& options,
                                              std::vector<AdapterFailure>* failures = nullptr) {
  static const RealClock clock;
  return LocalRunner::Create(options, clock, failures);
}

std::string ErrorWith(const std::function<void(LocalRunnerOptions&)>& change) {
  LocalRunnerOptions options = Options();
  change(options);
  const auto runner = Create(options);
  EXPECT_FALSE(runner.ok());
  return runner.ok() ? "" : Message(runner.status());
}

TEST(LocalRunner, DescribesWhatItChose) {
  const auto runner = Create(Options());
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->max_model_len(), 256);
  EXPECT_THAT((*runner)->Description(),
              AllOf(HasSubstr("LlamaForCausalLM in F32"), HasSubstr("1 threads"),
                    HasSubstr("context of 256 tokens"), HasSubstr("2 adapters")));
}

TEST(LocalRunner, ThePoolIsNoLargerThanItCanBeUsed) {
  const auto runner = Create(Options());
  ASSERT_TRUE(runner.ok()) << runner.status();
  const Engine& engine = (*runner)->engine();
  EXPECT_EQ(engine.Stats().pages_total, 4 * 256 / engine.layout().page_tokens +
                                            engine.PagesFor(AdapterId(0)) +
                                            engine.PagesFor(AdapterId(1)));
}

TEST(LocalRunner, ASmallPoolShortensTheContext) {
  LocalRunnerOptions options = Options();
  options.pool_bytes = 60 * 2048;
  const auto runner = Create(options);
  ASSERT_TRUE(runner.ok()) << runner.status();
  const Engine& engine = (*runner)->engine();
  EXPECT_EQ(engine.Stats().pages_total, 60);
  EXPECT_EQ((*runner)->max_model_len(),
            (60 - engine.PagesFor(AdapterId(0))) * engine.layout().page_tokens);
}

TEST(LocalRunner, RefusesOptionsThatCannotBe) {
  using O = LocalRunnerOptions;
  EXPECT_THAT(ErrorWith([](O& o) { o.device = "cuda"; }), HasSubstr("--device cuda"));
  EXPECT_THAT(ErrorWith([](O& o) { o.isa = "neon"; }),
              AllOf(HasSubstr("--isa neon"), HasSubstr("portable")));
  EXPECT_THAT(ErrorWith([](O& o) { o.dtype = "int4"; }), HasSubstr("--dtype int4"));
  for (const int64_t seqs : {0, -1, 4097}) {
    EXPECT_THAT(ErrorWith([&](O& o) { o.max_num_seqs = seqs; }), HasSubstr("--max-num-seqs is"));
  }
  for (const int64_t tokens : {3, 65537}) {
    EXPECT_THAT(ErrorWith([&](O& o) { o.max_num_batched_tokens = tokens; }),
                HasSubstr("--max-num-batched-tokens is"));
  }
  for (const int threads : {-1, 1'000'000}) {
    EXPECT_THAT(ErrorWith([&](O& o) { o.threads = threads; }), HasSubstr("--threads is"));
  }
  for (const int64_t length : {0, 257}) {
    EXPECT_THAT(ErrorWith([&](O& o) { o.max_model_len = length; }),
                AllOf(HasSubstr("--max-model-len is"), HasSubstr("256")));
  }
}

// Of a model with a state: it cannot go back behind a wrong guess. Predictions are allowed, and
// worth nothing.
TEST(LocalRunner, RefusesGuessesWhereTheyCannotBeTakenBack) {
  LocalRunnerOptions options = Options();
  options.model_dir = SourcePath("tests/goldens/qwen35-f32");
  options.adapter_dirs = {};
  options.drafts = {.max_tokens = 4};
  const auto refused = Create(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(Message(refused.status()),
              AllOf(HasSubstr("--speculative-config"), HasSubstr("Qwen3_5ForCausalLM")));
  options.drafts.looks_back = false;
  const auto runner = Create(options);
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_TRUE((*runner)->engine().caches_prefixes());
  const int64_t state = (*runner)->engine().layout().state.num_pages();
  EXPECT_EQ((*runner)->engine().Stats().pages_total,
            4 * (256 / (*runner)->engine().layout().page_tokens + state));
}

TEST(LocalRunner, RefusesAPoolThatHoldsNoSequence) {
  using O = LocalRunnerOptions;
  for (const int64_t bytes : {int64_t{-1}, int64_t{0}, int64_t{4096}}) {
    EXPECT_THAT(ErrorWith([&](O& o) { o.pool_bytes = bytes; }),
                AllOf(HasSubstr("is too small"), HasSubstr("--pool-bytes")));
  }
  EXPECT_THAT(ErrorWith([](O& o) {
                o.pool_bytes = 60 * 2048;
                o.max_model_len = 256;
              }),
              HasSubstr("one sequence of 256 tokens"));
}

TEST(LocalRunner, RefusesAShareThatHoldsNoAdapter) {
  using O = LocalRunnerOptions;
  for (const double share : {0.0, -0.5, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(ErrorWith([&](O& o) { o.adapter_pool_share = share; }),
                AllOf(HasSubstr("--adapter-pool-share is"), HasSubstr("at most 1")));
  }
  for (const double share : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(ErrorWith([&](O& o) { o.tenant_pin_share = share; }),
                AllOf(HasSubstr("--tenant-pin-share is"), HasSubstr("from 0 to 1")));
  }
  EXPECT_THAT(ErrorWith([](O& o) { o.adapter_pool_share = 0.001; }),
              AllOf(HasSubstr("--adapter-pool-share 0.001 of the pool's"),
                    HasSubstr("the largest adapter takes")));
}

// However many pin, who has pinned nothing has room for the longest context and an adapter of half
// of the rest.
TEST(LocalRunner, AllPinsTogetherLeaveAHalf) {
  LocalRunnerOptions options = Options();
  options.adapter_dirs = {kAdapters + "all-r4", kAdapters + "all-r4", kAdapters + "down-r1"};
  options.max_model_len = 128;
  const auto any = Create(options);
  ASSERT_TRUE(any.ok()) << any.status();
  const Engine& engine = (*any)->engine();
  const int64_t context = CeilDiv(int64_t{128}, engine.layout().page_tokens);
  const int64_t large = engine.PagesFor(AdapterId(0));
  options.pool_bytes = (context + 2 * large) * engine.layout().page_bytes();
  wire::SequenceRequest longest;
  longest.adapters = MixOf(AdapterId(1));
  longest.prompt.assign(100, 7);
  longest.max_tokens = 28;
  longest.tenant = "quiet";
  for (const double share : {0.5, 0.25, 1.0}) {
    SCOPED_TRACE(share);
    options.tenant_pin_share = share;
    const auto runner = Create(options);
    ASSERT_TRUE(runner.ok()) << runner.status();
    const auto pin = [&](int32_t id, const std::string& tenant) {
      return (*runner)->PinAdapter(AdapterId(id), tenant);
    };
    const auto first = pin(0, "acme");
    EXPECT_EQ(first.ok(), share >= 0.5);
    const auto second = pin(2, "zeta");
    EXPECT_EQ(second.ok(), share != 0.5) << "of half, nothing is left";
    EXPECT_EQ((*runner)->engine().Accept(longest).ok(), share < 1);
  }
}

TEST(LocalRunner, GivesSequencesAShareOfThePool) {
  EXPECT_THAT(ErrorWith([](LocalRunnerOptions& o) { o.kv_pool_share = 0; }),
              HasSubstr("--kv-pool-share is 0; it must be more than 0"));
  LocalRunnerOptions options = Options();
  options.pool_bytes = 400 * 2048;
  const int64_t whole = Create(options).value()->max_model_len();
  options.kv_pool_share = 0.01;
  EXPECT_LT(Create(options).value()->max_model_len(), whole);
}

TEST(LocalRunner, RefusesAPoolLargerThanTheMachine) {
  EXPECT_THAT(ErrorWith([](LocalRunnerOptions& o) { o.pool_bytes = int64_t{1} << 50; }),
              AllOf(HasSubstr("--pool-bytes"), HasSubstr("memory")));
}

TEST(LocalRunner, RefusesAModelThatIsNotThere) {
  EXPECT_THAT(ErrorWith([](LocalRunnerOptions& o) { o.model_dir = "/nothing/here"; }),
              HasSubstr("/nothing/here"));
}

TEST(LocalRunner, NamesEveryAdapterThatItCannotServe) {
  LocalRunnerOptions options = Options();
  options.adapter_dirs = {kAdapters + "nothing", kAdapters + "all-r4", kModel};
  std::vector<AdapterFailure> failures;
  EXPECT_FALSE(Create(options, &failures).ok());
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[0].index, 0u);
  EXPECT_THAT(Message(failures[0].error), HasSubstr("nothing/adapter_config.json"));
  EXPECT_EQ(failures[1].index, 2u);
  EXPECT_THAT(ErrorWith([](LocalRunnerOptions& o) { o.max_lora_rank = 2; }),
              HasSubstr("--max-lora-rank of 2"));
}

}  // namespace
}  // namespace aril

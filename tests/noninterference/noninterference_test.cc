// What a request gets never depends on who shares its batch or its pages: requests alone, without a
// prefix cache, then mixed with others that begin alike under random chunking, pool sizes,
// evictions, recomputation, cancellations and thread counts, give bitwise equal logits and KV
// bytes.

#include <filesystem>
#include <map>
#include <random>
#include <string_view>

#include "base/test_paths.h"
#include "gtest/gtest.h"
#include "support/engine_fixture.h"

namespace aril {
namespace {

const std::string kGoldens = SourcePath("tests/goldens/");

// What one sampled token was computed from.
struct Observation {
  std::vector<float> logits;
  size_t kv_hash;  // of K and V of all tokens so far, in the order of tokens
  friend bool operator==(const Observation& a, const Observation& b) {
    return a.kv_hash == b.kv_hash && a.logits.size() == b.logits.size() &&
           std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0;
  }
};

// By (sequence, number of tokens before the sampled one).
using Observations = std::map<std::pair<int64_t, int64_t>, Observation>;

size_t HashKv(const Sequence& sequence, const Arena& arena, const kernels::KvLayout& layout) {
  size_t hash = 0;
  const int64_t blocks = layout.num_layers * 2 * layout.num_kv_heads;
  for (int64_t token = 0; token < sequence.num_tokens(); ++token) {
    const std::byte* page =
        arena.Address(sequence.pages[static_cast<size_t>(token / layout.page_tokens)].id());
    for (int64_t block = 0; block < blocks; ++block) {
      const std::byte* row =
          page + block * layout.block_bytes() + token % layout.page_tokens * layout.row_bytes();
      const std::string_view bytes(reinterpret_cast<const char*>(row),
                                   static_cast<size_t>(layout.row_bytes()));
      hash = hash * 1099511628211u + std::hash<std::string_view>()(bytes);
    }
  }
  return hash;
}

void Observe(LocalRunner& runner, Observations& observations) {
  runner.engine().executor().SetLogitsObserver([&](const Sequence& sequence,
                                                   std::span<const float> logits) {
    const auto key = std::pair(sequence.id().value(), sequence.num_tokens());
    Observation seen{{logits.begin(), logits.end()},
                     HashKv(sequence, runner.engine().arena(), runner.engine().layout())};
    ASSERT_TRUE(observations.emplace(key, std::move(seen)).second) << "a token was sampled twice";
  });
}

// The bytes of a pool that holds a sequence of 90 tokens with the largest mix among `requests`, or
// with the largest adapter, and `more` tokens.
int64_t TightPool(const Engine& engine, const std::vector<wire::SequenceRequest>& requests,
                  size_t num_adapters, int64_t more) {
  int64_t adapter_pages = 0;
  for (size_t i = 0; i < num_adapters; ++i) {
    adapter_pages = std::max(adapter_pages, engine.PagesFor(AdapterId(static_cast<int32_t>(i))));
  }
  for (const wire::SequenceRequest& request : requests) {
    int64_t pages = 0;
    for (const AdapterUse& use : request.adapters) pages += engine.PagesFor(use.id);
    adapter_pages = std::max(adapter_pages, pages);
  }
  const kernels::KvLayout& layout = engine.layout();
  // Of states there is room for three to six.
  const int64_t state_pages = layout.pages().state_pages * (3 + more % 4);
  return (adapter_pages + state_pages + (90 + more) / layout.page_tokens + 1) * layout.page_bytes();
}

struct Model {
  const char* name;
  const char* dtype;
  const char* quantization = "none";
};

using Parameters = std::tuple<Model, kernels::Isa>;

class NonInterference : public ::testing::TestWithParam<Parameters> {
 protected:
  static constexpr int kRequests = 14;

  LocalRunnerOptions Options() const {
    const auto& [model, isa] = GetParam();
    LocalRunnerOptions options{.model_dir = kGoldens + model.name,
                               .dtype = model.dtype,
                               .quantization = model.quantization,
                               .isa = std::string(Name(isa)),
                               .threads = 1,
                               .min_cached_state_tokens = 4,
                               .run_aside = Residency::AtOnce};
    for (const auto& entry : std::filesystem::directory_iterator(options.model_dir + "/adapters")) {
      options.adapter_dirs.push_back(entry.path());
    }
    std::sort(options.adapter_dirs.begin(), options.adapter_dirs.end());
    return options;
  }

  std::vector<wire::SequenceRequest> RandomRequests(std::mt19937_64& random,
                                                    const LocalRunner& runner,
                                                    const Invocations& invocations) {
    std::vector<wire::SequenceRequest> requests;
    for (int64_t id = 0; id < kRequests; ++id) {
      // Two openings, which sequences share, with an end of their own; or no opening.
      std::vector<int32_t> prompt(1 + random() % 35);
      std::mt19937_64 opening(random() % 2);
      const size_t num_common = random() % 3 == 0 ? 0 : prompt.size() * 3 / 4;
      for (size_t i = 0; i < prompt.size(); ++i) {
        prompt[i] = static_cast<int32_t>((i < num_common ? opening() : random()) %
                                         static_cast<uint64_t>(runner.spec().vocab_size));
      }
      auto request = GreedyRequest(id, std::move(prompt), 1 + static_cast<int32_t>(random() % 54),
                                   RandomMix(random, invocations.size()));
      TakeOwnTokens(runner, random, request);
      Invoke(invocations, random, request);
      if (random() % 2 == 0) {
        request.sampling = {
            .temperature = 0.9f, .top_p = 0.95f, .repetition_penalty = 1.1f, .seed = random()};
      }
      requests.push_back(std::move(request));
    }
    return requests;
  }
};

// Adds requests at random steps, cancels the disturbers at random, and runs everything to its end.
// Returns the tokens of each.
std::map<int64_t, std::vector<int32_t>> RunMixed(Engine& engine,
                                                 const std::vector<wire::SequenceRequest>& requests,
                                                 std::mt19937_64& random, int& max_adapters) {
  std::map<int64_t, std::vector<int32_t>> tokens;
  size_t next = 0;
  while (next < requests.size() || engine.HasWork()) {
    while (next < requests.size() && random() % 3 != 0) Add(engine, requests[next++]);
    if (random() % 7 == 0) {
      // Disturbers have ids from 1000 on.
      engine.Cancel(SequenceId(1000 + static_cast<int64_t>(random() % requests.size())));
    }
    for (const wire::TokenEvent& event : engine.Step()) {
      if (event.token.has_value()) tokens[event.sequence.value()].push_back(*event.token);
    }
    max_adapters = std::max(max_adapters, engine.Stats().num_adapters);
  }
  return tokens;
}

TEST_P(NonInterference, MixedRequestsAreBitwiseWhatTheyAreAlone) {
  int64_t evictions = 0;
  int64_t adapter_drops = 0;
  int64_t prefix_hits = 0;
  int max_adapters = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    // Some of the adapters: where one is much larger than the others, there is room for all of
    // their sequences.
    LocalRunnerOptions options = Options();
    std::shuffle(options.adapter_dirs.begin(), options.adapter_dirs.end(), random);
    options.adapter_dirs.resize(1 + random() % options.adapter_dirs.size());
    LocalRunnerOptions alone_options = options;
    alone_options.enable_prefix_caching = false;
    auto alone = OpenRunner(alone_options);
    const Invocations invocations = ReadInvocations(options.adapter_dirs);
    const auto requests = RandomRequests(random, *alone, invocations);

    Observations expected;
    std::map<int64_t, std::vector<int32_t>> expected_tokens;
    Observe(*alone, expected);
    for (const auto& request : requests) {
      int unused = 0;
      expected_tokens.merge(RunMixed(alone->engine(), {request}, random, unused));
    }

    ASSERT_GT(expected.size(), 50u);

    // The same among disturbers, in a pool that is too small for all.
    LocalRunnerOptions mixed_options = options;
    mixed_options.threads = 1 + static_cast<int>(random() % 3);
    mixed_options.max_num_seqs = 2 + static_cast<int64_t>(random() % 14);
    mixed_options.max_num_batched_tokens =
        mixed_options.max_num_seqs + static_cast<int64_t>(random() % 40);
    mixed_options.max_model_len = 90;
    std::vector<wire::SequenceRequest> all = requests;
    for (wire::SequenceRequest& disturber : RandomRequests(random, *alone, invocations)) {
      disturber.sequence = SequenceId(1000 + disturber.sequence.value());
      all.push_back(std::move(disturber));
    }
    // And some of them three times: these begin alike up to the end.
    for (const wire::SequenceRequest& request : requests) {
      if (random() % 3 != 0) continue;
      for (const int64_t first_id : {2000, 3000}) {
        all.push_back(request);
        all.back().sequence = SequenceId(first_id + request.sequence.value());
      }
    }
    std::shuffle(all.begin(), all.end(), random);
    mixed_options.pool_bytes = TightPool(alone->engine(), all, options.adapter_dirs.size(),
                                         static_cast<int64_t>(random() % 60));
    auto mixed = OpenRunner(mixed_options);
    Observations seen;
    Observe(*mixed, seen);
    const auto tokens = RunMixed(mixed->engine(), all, random, max_adapters);
    evictions += mixed->engine().Stats().evictions;
    adapter_drops += mixed->engine().Stats().adapter_evictions;
    prefix_hits += mixed->engine().Stats().prefix_hits;

    for (const auto& [id, want] : expected_tokens)
      EXPECT_EQ(tokens.at(id), want) << "sequence " << id;
    for (const auto& [key, want] : expected) {
      ASSERT_TRUE(seen.contains(key)) << "sequence " << key.first << " at " << key.second;
      ASSERT_TRUE(seen.at(key) == want) << "sequence " << key.first << " at " << key.second;
    }
    const wire::StepStats stats = mixed->engine().Stats();
    EXPECT_EQ(stats.pages_kv, 0);
    EXPECT_EQ(stats.pages_free + stats.pages_adapter + stats.pages_prefix, stats.pages_total);
  }
  // The test must have done what it is for.
  EXPECT_GT(evictions, 0);
  EXPECT_GT(adapter_drops, 0);
  EXPECT_GT(prefix_hits, 0);
  EXPECT_GE(max_adapters, 3);
}

std::string TestName(const ::testing::TestParamInfo<Parameters>& test) {
  const auto& [model, isa] = test.param;
  std::string name =
      std::string(model.name) + "_" + model.dtype + "_" +
      (model.quantization == std::string("none") ? "" : model.quantization + std::string("_")) +
      std::string(Name(isa));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    AllIsas, NonInterference,
    ::testing::Combine(
        ::testing::Values(Model{"llama-f32-sharded", "float32"}, Model{"mistral-f32", "bfloat16"},
                          Model{"qwen2-bf16", "bfloat16"}, Model{"qwen3-f32", "float32"},
                          Model{"qwen3-moe-f32", "float32"},
                          Model{"qwen3-moe-f32", "bfloat16", "int8"},
                          Model{"qwen3-f32", "bfloat16", "int4"},
                          Model{"qwen3-moe-f32", "float32", "int4"},
                          Model{"gpt-oss-f32", "float32"}, Model{"gpt-oss-f32", "bfloat16"},
                          Model{"qwen35-f32", "float32"}, Model{"qwen35-f32", "bfloat16"},
                          Model{"qwen35-f32", "bfloat16", "int8"}),
        ::testing::ValuesIn(kernels::AvailableIsas())),
    TestName);

}  // namespace
}  // namespace aril

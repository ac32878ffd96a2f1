#include "support/engine_fixture.h"

#include <algorithm>
#include <utility>

#include "gtest/gtest.h"
#include "spec/lora_config.h"

namespace aril {

std::unique_ptr<LocalRunner> OpenRunner(const LocalRunnerOptions& options) {
  static const RealClock clock;
  auto runner = LocalRunner::Create(options, clock);
  EXPECT_TRUE(runner.ok()) << runner.status();
  return runner.ok() ? std::move(*runner) : nullptr;
}

wire::SequenceRequest GreedyRequest(int64_t id, std::vector<int32_t> prompt, int32_t max_tokens,
                                    AdapterMix adapters) {
  wire::SequenceRequest request;
  request.sequence = SequenceId(id);
  request.adapters = std::move(adapters);
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

AdapterMix RandomMix(std::mt19937_64& random, size_t num_adapters) {
  AdapterMix mix;
  for (uint64_t count = random() % 3; count > 0; --count) {
    const AdapterId id(static_cast<int32_t>(random() % num_adapters));
    if (!Uses(mix, id)) mix.push_back({id});
  }
  return mix;
}

void TakeOwnTokens(const LocalRunner& runner, std::mt19937_64& random,
                   wire::SequenceRequest& request) {
  for (const AdapterUse& use : request.adapters) {
    const int64_t size = runner.Describe(use.id).vocab_size;
    if (size == runner.spec().vocab_size) continue;
    for (int32_t& token : request.prompt) {
      if (random() % 4 == 0)
        token = static_cast<int32_t>(size - 1 - static_cast<int64_t>(random() % 2));
      token %= static_cast<int32_t>(size);
    }
    request.adapters = MixOf(use.id);
    return;
  }
}

Invocations ReadInvocations(const std::vector<std::string>& adapter_dirs) {
  Invocations invocations;
  for (const std::string& dir : adapter_dirs) {
    const auto config = LoadLoraConfig(dir);
    EXPECT_TRUE(config.ok()) << config.status();
    invocations.push_back(config.ok() ? config->invocation_tokens : std::vector<int32_t>());
  }
  return invocations;
}

void Invoke(const Invocations& invocations, std::mt19937_64& random,
            wire::SequenceRequest& request) {
  std::vector<int32_t>& prompt = request.prompt;
  bool is_invoked = false;
  for (const AdapterUse& use : request.adapters) {
    const std::vector<int32_t>& tokens = invocations[static_cast<size_t>(use.id.value())];
    if (tokens.empty()) continue;
    ASSERT_FALSE(std::exchange(is_invoked, true));
    prompt.resize(std::max(prompt.size(), tokens.size()));
    const auto first = static_cast<std::ptrdiff_t>(random() % (prompt.size() - tokens.size() + 1));
    std::ranges::copy(tokens, prompt.begin() + first);
  }
}

void Add(Engine& engine, wire::SequenceRequest request) {
  auto accepted = engine.Accept(std::move(request));
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  engine.Add(*std::move(accepted));
}

std::vector<Generated> RunAll(Engine& engine, const std::vector<wire::SequenceRequest>& requests) {
  for (const wire::SequenceRequest& request : requests) {
    Add(engine, request);
  }
  std::vector<Generated> results(requests.size());
  while (engine.HasWork()) {
    for (const wire::TokenEvent& event : engine.Step()) {
      Generated& result = results.at(static_cast<size_t>(event.sequence.value()));
      EXPECT_FALSE(result.finish.has_value()) << "an event after the end";
      EXPECT_EQ(event.index, static_cast<int32_t>(result.tokens.size()));
      if (event.token.has_value()) result.tokens.push_back(*event.token);
      result.pooled = event.pooled;
      result.finish = event.finish;
      result.error = event.error;
    }
  }
  return results;
}

std::vector<std::vector<float>> TeacherForcedLogits(Engine& engine,
                                                    const std::vector<int32_t>& tokens,
                                                    const std::vector<int64_t>& positions,
                                                    const AdapterMix& adapters) {
  // One sequence per prefix: cheap on test models, and goes the way of every request.
  std::vector<std::vector<float>> logits(positions.size());
  engine.executor().SetLogitsObserver([&](const Sequence& sequence, std::span<const float> row) {
    logits[static_cast<size_t>(sequence.id().value())].assign(row.begin(), row.end());
  });
  std::vector<wire::SequenceRequest> requests;
  for (const int64_t position : positions) {
    requests.push_back(GreedyRequest(static_cast<int64_t>(requests.size()),
                                     {tokens.begin(), tokens.begin() + position + 1}, 1, adapters));
  }
  RunAll(engine, requests);
  engine.executor().SetLogitsObserver(nullptr);
  return logits;
}

}  // namespace aril

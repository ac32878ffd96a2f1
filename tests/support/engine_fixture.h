// Running sequences through an engine, step by step, in tests.

#ifndef ARIL_TESTS_SUPPORT_ENGINE_FIXTURE_H_
#define ARIL_TESTS_SUPPORT_ENGINE_FIXTURE_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runner/local_runner.h"
#include "wire/messages.h"

namespace aril {

// A runner that is not started, so that its engine can be driven by hand. Fails the test on an
// error.
std::unique_ptr<LocalRunner> OpenRunner(const LocalRunnerOptions& options);

wire::SequenceRequest GreedyRequest(int64_t id, std::vector<int32_t> prompt, int32_t max_tokens,
                                    AdapterMix adapters = {});

// None, one or two of the adapters 0 … num_adapters - 1.
AdapterMix RandomMix(std::mt19937_64& random, size_t num_adapters);

// With an adapter of another vocabulary among its adapters, the request is for that one alone, and
// of its tokens.
void TakeOwnTokens(const LocalRunner& runner, std::mt19937_64& random,
                   wire::SequenceRequest& request);

// Of each adapter, what a prompt must have to invoke it; empty for those that apply to all tokens.
using Invocations = std::vector<std::vector<int32_t>>;
Invocations ReadInvocations(const std::vector<std::string>& adapter_dirs);
// Writes it over a part of the prompt if the request uses an adapter that needs it, of which it may
// use one.
void Invoke(const Invocations& invocations, std::mt19937_64& random,
            wire::SequenceRequest& request);

// Adds a request; fails the test if it cannot run.
void Add(Engine& engine, wire::SequenceRequest request);

struct Generated {
  std::vector<int32_t> tokens;
  std::vector<float> pooled;
  std::optional<wire::FinishReason> finish;
  Status error;
};

// Adds all requests (ids 0, 1, …) and steps until they have finished.
std::vector<Generated> RunAll(Engine& engine, const std::vector<wire::SequenceRequest>& requests);

// Logits at some positions of a text: entry i holds those after tokens [0, positions[i]], whatever
// the model would have chosen there.
std::vector<std::vector<float>> TeacherForcedLogits(Engine& engine,
                                                    const std::vector<int32_t>& tokens,
                                                    const std::vector<int64_t>& positions,
                                                    const AdapterMix& adapters);

}  // namespace aril

#endif  // ARIL_TESTS_SUPPORT_ENGINE_FIXTURE_H_

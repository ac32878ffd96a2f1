// The server that is measured: where it is, what it has, and how it is asked for an adapter.

#ifndef ARIL_APPS_BENCH_TARGET_H_
#define ARIL_APPS_BENCH_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench_workload.h"
#include "apps/server.h"
#include "base/status.h"

namespace aril {

// How a request names its adapter.
enum class AdapterField {
  kModel,  // its name in `model`: Aril, vLLM, SGLang, LoRAX's OpenAI endpoint
  kLora,   // its id in `lora`: llama.cpp's llama-server
};

// "model" or "lora".
StatusOr<AdapterField> ParseAdapterField(const std::string& name);

struct BenchTarget : Server {
  AdapterField field = AdapterField::kModel;
};

struct BenchModels {
  std::string base;
  std::vector<std::string> adapters;  // names, or, for kLora, ids as numbers
};

// What the server has. `base`: the base model's name, or empty for the first model without a
// parent.
StatusOr<BenchModels> ListModels(const BenchTarget& target, const std::string& base);

// Below lie special tokens, as a rule.
inline constexpr int32_t kMinTokenId = 10;

struct RequestOptions {
  int32_t max_token_id = 0;  // prompts are of random ids from kMinTokenId to this
  uint64_t seed = 0;
  int64_t prefix_tokens = 0;  // at the beginning of each prompt; they depend on the seed only
};

// The JSON of a streaming POST /v1/completions: greedy, of exactly the tokens asked for.
// `request_idx` makes the prompt a different one, after its prefix.
std::string RequestBody(AdapterField field, const BenchModels& models,
                        const WorkloadRequest& request, size_t request_idx,
                        const RequestOptions& options);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_TARGET_H_

#include "gateway/completion_request.h"

#include <algorithm>

namespace aril::gateway {

int64_t CompletionRequest::num_prompt_tokens() const {
  int64_t sum = 0;
  for (const CompletionPrompt& prompt : prompts) sum += static_cast<int64_t>(prompt.tokens.size());
  return sum;
}

wire::SequenceRequest MakeSequence(const CompletionRequest& request, int64_t candidate_idx,
                                   SequenceId sequence, uint64_t seed, TimePoint arrival) {
  const auto& prompt = request.prompts[static_cast<size_t>(candidate_idx / request.best_of)];
  wire::SequenceRequest result = request.common;
  result.sequence = sequence;
  result.prompt = prompt.tokens;
  result.is_sibling = candidate_idx > 0;
  result.choice = static_cast<int32_t>(candidate_idx % request.best_of);
  result.max_tokens = prompt.max_tokens;
  result.min_tokens = std::min(result.min_tokens, result.max_tokens);
  if (!request.has_seed) result.sampling.seed = seed;
  result.arrival = arrival;
  return result;
}

}  // namespace aril::gateway

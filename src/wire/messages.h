// Plain structs exchanged by gateway, scheduler and runner. No behaviour, no tensors, no text.

#ifndef ARIL_WIRE_MESSAGES_H_
#define ARIL_WIRE_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/adapter_mix.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "wire/output_format.h"
#include "wire/reasoning_budget.h"
#include "wire/sampling.h"

namespace aril::wire {

// What is asked of the end of a prompt, instead of tokens: max_tokens is 0.
enum class Pooling {
  kNone,
  kEmbedding,          // the hidden state of its last token, behind the model's last norm: [hidden]
  kClassLogits,        // what the head of its adapter makes of that: [labels]
  kClassProbabilities  // and what these stand for (adapters/class_head.h)
};
inline bool OfClasses(Pooling pooling) {
  return pooling == Pooling::kClassLogits || pooling == Pooling::kClassProbabilities;
}

// One sequence to generate: (request, choice).
struct SequenceRequest {
  SequenceId sequence;  // unique among the runner's live sequences
  std::string tenant = "default";
  AdapterMix adapters;
  std::vector<int32_t> prompt;
  // Of an earlier attempt: the sequence goes on behind them. max_tokens and the events' indices
  // count them; they are fewer than max_tokens.
  std::vector<int32_t> output;
  int32_t choice = 0;  // part of the sampling key: choices of one request differ
  // Not the first sequence of its request, which is judged for all of them: whether it may wait is
  // no question. Of no meaning to who runs it.
  bool is_sibling = false;
  int32_t max_tokens = 16;  // 0: the prompt is computed, and ends with kLength
  Pooling pooling = Pooling::kNone;
  // Of those of its tenant that wait, the higher goes first; against others it is nothing.
  int32_t priority = 0;
  int32_t min_tokens = 0;
  std::vector<int32_t> stop_token_ids;  // the model's EOS ids included, unless ignore_eos
  SamplingParams sampling;
  OutputFormat format;
  std::optional<ReasoningBudget> reasoning_budget;
  // What the output may turn out to be, or be like: guesses, which change when its tokens come, and
  // never which.
  std::vector<int32_t> prediction;
  uint32_t attempt = 0;
  TimePoint arrival;
};

// Tokens of a prediction that were tried beside a token.
struct PredictionUse {
  int32_t num_accepted = 0;  // what came
  int32_t num_rejected = 0;  // in vain

  bool operator==(const PredictionUse&) const = default;
};

enum class FinishReason { kStop, kLength, kCancelled, kError };

// What a step did to one sequence, or a part of that: a token, an end, or both.
struct TokenEvent {
  SequenceId sequence;
  uint32_t attempt = 0;
  int32_t index = 0;  // of this token in the output, from 0
  std::optional<int32_t> token;
  std::optional<Logprobs> logprobs;
  // With the first token, when asked for: entry i is about prompt token i (entry 0 is empty).
  std::vector<Logprobs> prompt_logprobs;
  // With the end: what the request's `pooling` asks for, and of classes the name of the likeliest.
  std::vector<float> pooled;
  std::string label;
  std::optional<FinishReason> finish;
  // kStop by a stop token: that token (it is in `token`, too).
  std::optional<int32_t> stop_token;
  int32_t num_cached = 0;  // tokens of the prompt that were not computed, but found in the cache
  PredictionUse prediction_use;  // what this token adds to it
  Status error;                  // set with kError
};

// The live sequences that use one adapter, or none (kBaseModel).
struct AdapterLoad {
  AdapterId adapter = kBaseModel;
  int32_t num_running = 0;
  int32_t num_waiting = 0;

  bool operator==(const AdapterLoad&) const = default;
};

// A live sequence after a step.
struct SequenceState {
  SequenceId sequence;
  bool is_running = false;
  bool has_started = false;  // waits again if it is not running
  int32_t num_tokens = 0;    // prompt and output so far

  bool operator==(const SequenceState&) const = default;
};

// The state of a runner after a step; for metrics, and for the scheduler of a cluster.
struct StepStats {
  int64_t step = 0;  // number of steps run so far
  // Of the batch that was run; where a device runs by itself, of the one that it was given, while
  // the tokens are those of the batch before.
  int32_t num_rows = 0;
  int32_t num_prefill_rows = 0;
  int32_t num_segments = 0;   // runs of rows with one adapter
  int32_t num_adapters = 0;   // different ones, the base model not counted
  int32_t num_generated = 0;  // tokens
  Duration step_time{};
  int32_t num_running = 0;
  int32_t num_waiting = 0;
  int64_t pages_total = 0;
  int64_t pages_kv = 0;
  int64_t pages_adapter = 0;
  int64_t pages_prefix = 0;  // cached, used by no sequence
  int64_t pages_free = 0;
  // Free, or idle and as good as free, less those that running sequences and pinned adapters have
  // been promised and have not taken yet. Negative: promised more than once.
  int64_t pages_available = 0;
  int64_t page_tokens = 0;  // tokens per page
  int64_t page_bytes = 0;
  int64_t unused_kv_bytes = 0;  // of the pages above, what holds nothing: behind the last tokens,
  int64_t unused_adapter_bytes = 0;          // and where an adapter's next row did not fit
  int64_t evictions = 0;                     // sequences evicted so far
  int64_t prefix_queries = 0;                // prompt tokens looked up in the prefix cache so far
  int64_t prefix_hits = 0;                   // those of them that were there
  int64_t num_drafts = 0;                    // of sequences that were tried so far
  int64_t num_draft_tokens = 0;              // their tokens
  int64_t num_accepted_tokens = 0;           // those of them that were right
  int64_t adapter_loads = 0;                 // adapters copied into the pool so far
  int64_t adapter_evictions = 0;             // adapters dropped from the pool so far
  std::vector<Duration> queue_times;         // of sequences that started in this step, from arrival
  std::vector<Duration> adapter_load_times;  // of adapters copied into the pool in this step
  std::vector<AdapterLoad> adapters;         // by id, each with at least one live sequence
  std::vector<SequenceState> sequences;      // by arrival; only if the engine was asked for them
};

}  // namespace aril::wire

#endif  // ARIL_WIRE_MESSAGES_H_

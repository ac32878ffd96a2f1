// A checked request to /v1/completions, /v1/chat/completions, /v1/responses, /v1/messages,
// /v1/embeddings or /v1/classify: the sequences that answer it, and how their answer is to look.

#ifndef ARIL_GATEWAY_COMPLETION_REQUEST_H_
#define ARIL_GATEWAY_COMPLETION_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gateway/argument_reader.h"
#include "gateway/reasoning_syntax.h"
#include "gateway/served_model.h"
#include "grammar/tool_calls.h"
#include "wire/messages.h"

namespace aril::gateway {

class AdapterLoads;

enum class Endpoint { kCompletions, kChat, kResponses, kMessages, kEmbeddings, kClassify };

struct CompletionLimits {
  size_t max_body_bytes = 16 << 20;
  // Prompts × candidates of one request; of texts to embed or to classify, those at a time.
  int64_t max_sequences = 128;
};

// What a request's body is read with.
struct RequestContext {
  const ServedModel& model;
  const CompletionLimits& limits;
  std::string_view tenant;
  int64_t unix_seconds = 0;             // for chat templates that state the date
  uint64_t draw = 0;                    // random: the share of who has neither a key nor a seed
  const AdapterLoads* loads = nullptr;  // null: nothing is ever being loaded
  bool may_open = true;  // adapters' files; where others wait, it may not: ApiError::closed_adapter
};

struct CompletionPrompt {
  std::vector<int32_t> tokens;
  std::string text;  // as the client gave it; only with echo, and decoded if it gave ids
  int32_t max_tokens = 0;
};

// How the reasoning before an answer is found.
struct ReasoningReading {
  ReasoningSyntax syntax;
  std::vector<int32_t> special_tokens;  // that it begins and ends with
  bool has_begun = false;               // in the prompt
  bool is_shown = true;                 // else it is left out
};

// How the calls of tools in an answer's text are found.
struct ToolCallReading {
  grammar::ToolCallSyntax syntax;
  ToolArgumentTypes argument_types;     // where arguments are written one by one
  std::vector<int32_t> special_tokens;  // that calls are written with: no others are text
  bool only_at_start = false;           // as ToolCallParser wants to know
  bool is_named = false;  // the request named the tool: the answer does not end for its call
};

// What is made of the hidden state of a prompt's last token.
struct EmbeddingForm {
  int64_t dimensions = 0;  // the first ones
  bool normalize = true;   // what is left of it
  bool as_base64 = false;  // of its floats, little-endian; else numbers
};

// Candidate i is candidate i % best_of of prompt i / best_of, a sequence of its own. The answer has
// the best n candidates of each prompt as its choices.
struct CompletionRequest {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string model;  // as the client named it
  // What that, and the names in `adapters`, stood for when the request came: kept while the request
  // is there.
  std::vector<CatalogEntryPtr> entries;
  // Of the first adapter, or of the base model.
  ModelTextPtr model_text;
  std::vector<CompletionPrompt> prompts;
  int32_t n = 1;
  int32_t best_of = 1;  // ≥ n; more only without streaming
  bool echo = false;
  bool logprobs = false;  // the answer shows them
  bool stream = false;
  bool include_usage = false;
  bool return_token_ids = false;
  bool fills_context = false;  // what ends the answer at the latest is the context, not a limit
  bool skip_special_tokens = true;
  bool includes_stop = false;  // what ends a text is the last of it, where that is text
  std::vector<std::string> stop;
  std::string format_field;                   // what asks for the format of the output
  std::optional<ReasoningReading> reasoning;  // there may be some, and it is told apart
  std::optional<ToolCallReading> tool_calls;  // tools may be called
  std::optional<EmbeddingForm> embedding;     // if that is what is pooled
  // The client gave a seed; else one is to be drawn for each sequence.
  bool has_seed = false;
  // What the answer says of the request itself, the text of a JSON object; of /v1/responses.
  std::string repeated;
  // What all sequences have in common.
  wire::SequenceRequest common;

  // Whose chat template and tokenizer the request's text is for.
  AdapterId first_adapter() const {
    return common.adapters.empty() ? kBaseModel : common.adapters.front().id;
  }
  // The prompts are all that is computed.
  bool is_pooled() const { return common.pooling != wire::Pooling::kNone; }
  int64_t num_candidates() const { return static_cast<int64_t>(prompts.size()) * best_of; }
  // A prompt counts once, however many candidates it has, as with OpenAI.
  int64_t num_prompt_tokens() const;
  // Nothing but the prompt is asked for (echo with max_tokens 0).
  bool prompt_only(const CompletionPrompt& prompt) const { return prompt.max_tokens == 0; }
};

// The sequence of one candidate.
wire::SequenceRequest MakeSequence(const CompletionRequest& request, int64_t candidate_idx,
                                   SequenceId sequence, uint64_t seed, TimePoint arrival);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_COMPLETION_REQUEST_H_

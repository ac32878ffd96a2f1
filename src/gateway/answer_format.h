// The answers of /v1/completions and /v1/chat/completions as JSON text.

#ifndef ARIL_GATEWAY_ANSWER_FORMAT_H_
#define ARIL_GATEWAY_ANSWER_FORMAT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "gateway/choice_output.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompts
  int64_t completion_tokens = 0;
  std::optional<int64_t> reasoning_tokens;  // of these, where reasoning is told apart
};

// What a choice says: all of it, or what one chunk of a stream adds.
struct ChoiceView {
  int64_t index = 0;
  const ChoiceDelta* delta = nullptr;
  bool with_logprobs = false;
  bool with_token_ids = false;
};

// Immutable; thread-safe. `null_usage`: the stream ends with a usage chunk, and the others say so.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  virtual std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const = 0;
  // What a choice's part of a stream begins with, if anything.
  virtual std::optional<std::string> FirstChunk(int64_t index, bool null_usage) const = 0;
  virtual std::string Chunk(const ChoiceView& choice, bool null_usage) const = 0;
  virtual std::string UsageChunk(const Usage& usage) const = 0;
};

struct AnswerHead {
  std::string id;       // "cmpl-…", "chatcmpl-…"
  int64_t created = 0;  // Unix seconds
  std::string model;    // as the client named it
};

// OpenAI's legacy completions format.
std::unique_ptr<const AnswerFormat> MakeCompletionFormat(const AnswerHead& head);
// OpenAI's chat completions format.
std::unique_ptr<const AnswerFormat> MakeChatFormat(const AnswerHead& head);

namespace internal {

// An answer's text up to and including `"choices":[`, and from there on.
std::string BeginAnswer(const AnswerHead& head, std::string_view object);
std::string EndAnswer(const Usage& usage);
std::string EndChunk(bool null_usage);

// A logprob as JSON: the shortest decimal that reads back as the same float; -9999 for -inf.
Json LogprobValue(float logprob);
// "stop", "length" or null.
Json FinishReasonText(const std::optional<wire::FinishReason>& finish);
Json IdArray(const std::vector<int32_t>& ids);

}  // namespace internal
}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ANSWER_FORMAT_H_

// The answers of /v1/completions, /v1/chat/completions, /v1/responses, /v1/messages,
// /v1/embeddings and /v1/classify as JSON text.

#ifndef ARIL_GATEWAY_ANSWER_FORMAT_H_
#define ARIL_GATEWAY_ANSWER_FORMAT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "gateway/api_error.h"
#include "gateway/choice_output.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

// Of a prediction that were tried, beside those of the completion.
struct PredictionTokens {
  int64_t num_accepted = 0;
  int64_t num_rejected = 0;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompts
  int64_t completion_tokens = 0;
  std::optional<int64_t> reasoning_tokens;  // of these, where reasoning is told apart

  std::optional<PredictionTokens> prediction;  // where there is one
};

// What a choice says: all of it, or what one chunk of a stream adds.
struct ChoiceView {
  int64_t index = 0;
  const ChoiceDelta* delta = nullptr;
  bool with_logprobs = false;
  bool with_token_ids = false;
};

// An answer's server-sent events. Not thread-safe.
class AnswerStream {
 public:
  virtual ~AnswerStream() = default;

  // What comes before anything has been generated, if anything.
  virtual std::string Begin() = 0;
  // What a delta adds to a choice; may be nothing.
  virtual std::string Append(const ChoiceView& choice) = 0;
  // The end of an answer; or of one that cannot be completed. Nothing comes behind either.
  virtual std::string End(const Usage& usage) = 0;
  virtual std::string Fail(const ApiError& error) = 0;
};

// Immutable; thread-safe.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  virtual std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const = 0;
  // Which the format must outlive. `with_usage`: it ends with it, where that is a choice.
  virtual std::unique_ptr<AnswerStream> Stream(bool with_usage) const = 0;
};

struct AnswerHead {
  std::string id;  // "cmpl-…", "chatcmpl-…", "resp_…", "msg_…", "embd-…", "classify-…"
  int64_t created = 0;  // Unix seconds
  std::string model;    // as the client named it
};

// OpenAI's legacy completions format.
std::unique_ptr<const AnswerFormat> MakeCompletionFormat(const AnswerHead& head);
// OpenAI's chat completions format.
std::unique_ptr<const AnswerFormat> MakeChatFormat(const AnswerHead& head);
// OpenAI's responses format. `repeated`: CompletionRequest::repeated, which must outlive it.
std::unique_ptr<const AnswerFormat> MakeResponsesFormat(const AnswerHead& head,
                                                        const std::string& repeated);

// Anthropic's messages format, of an answer to this request.
std::unique_ptr<const AnswerFormat> MakeMessagesFormat(const AnswerHead& head,
                                                       const CompletionRequest& request);

// OpenAI's format of embeddings, which are no streams.
std::unique_ptr<const AnswerFormat> MakeEmbeddingsFormat(const AnswerHead& head,
                                                         const EmbeddingForm& form);

// vLLM's format of classes, likewise.
std::unique_ptr<const AnswerFormat> MakeClassesFormat(const AnswerHead& head);

namespace internal {

// A logprob as JSON: the shortest decimal that reads back as the same float; -9999 for -inf.
Json LogprobValue(float logprob);
// An array of finite numbers, each likewise.
void AppendFloats(const std::vector<float>& numbers, std::string* text);
// "stop", "length" or null.
Json FinishReasonText(const std::optional<wire::FinishReason>& finish);
Json IdArray(const std::vector<int32_t>& ids);
// An object for each token, with its bytes also where it holds only a part of a character.
Json::Array TokenLogprobs(const std::vector<LogprobEntry>& entries);
// Of the call that a choice makes with this index. Nine letters and digits, as Mistral's templates
// want them: those of one conversation are different, by the answers' ids, which are random.
std::string CallId(const std::string& answer_id, int64_t choice, int64_t call);

}  // namespace internal
}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ANSWER_FORMAT_H_

// From the token events of one sequence to what its choice says: reasoning, text, calls of tools,
// logprobs, an end.
//
// text: detokenized without ever splitting a code point, cut at stop strings.
// logprobs: an entry follows the text in which its token begins, so that text held back for a
// possible stop string holds its entries back, too, and a cut drops them. Those of reasoning and
// calls, and of text that may become one, come as if it were text.

#ifndef ARIL_GATEWAY_CHOICE_OUTPUT_H_
#define ARIL_GATEWAY_CHOICE_OUTPUT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gateway/completion_request.h"
#include "gateway/reasoning_reader.h"
#include "gateway/stop_strings.h"
#include "gateway/tool_call_parser.h"
#include "tokenizer/tokenizer.h"
#include "wire/messages.h"

namespace aril::gateway {

// One token and what was likely in its place.
struct LogprobEntry {
  std::string bytes;             // of the token on its own; may be no valid UTF-8
  size_t text_offset = 0;        // code points of the choice's text before it
  wire::Logprobs logprobs;       // of the sampled or given token
  bool has_logprobs = true;      // false for the first token of a prompt
  std::vector<std::string> top;  // bytes of logprobs.top
};

// What became known about a choice since the last time.
struct ChoiceDelta {
  std::string reasoning;
  std::string text;
  std::vector<ToolCallDelta> tool_calls;
  std::vector<LogprobEntry> logprobs;
  std::vector<int32_t> token_ids;
  std::vector<float> pooled;                 // of the prompt, where the request wants that
  std::string label;                         // likewise
  std::optional<wire::FinishReason> finish;  // kStop or kLength
  bool ends_with_calls = false;              // whole ones, which the client is to make
  std::optional<std::string> stop_string;    // of the request, that it ended before
  bool cancel = false;  // ended by a stop string: the sequence itself still runs

  bool empty() const {
    return reasoning.empty() && text.empty() && tool_calls.empty() && logprobs.empty() &&
           !finish.has_value();
  }
};

// Not thread-safe. The arguments must outlive it.
class ChoiceOutput {
 public:
  ChoiceOutput(const CompletionRequest& request, const CompletionPrompt& prompt,
               const StopStrings& stop_strings, const Tokenizer& tokenizer);

  // Must not be called after an end. The event must be neither a cancellation nor an error.
  ChoiceDelta Append(wire::TokenEvent event);

  // Tokens accepted so far: those up to and including the one that completed a stop string.
  int64_t num_tokens() const { return num_tokens_; }
  // Of these, what the answer begins behind.
  int64_t num_reasoning_tokens() const { return num_reasoning_tokens_; }

 private:
  struct PendingLogprob {
    LogprobEntry entry;
    size_t start_bytes;  // where in produced_ its token begins
  };

  void AppendPrompt(const wire::TokenEvent& event, ChoiceDelta* delta);
  void AppendToken(const wire::TokenEvent& event, ChoiceDelta* delta);
  // A special token, but for those that reasoning and calls are written with.
  bool IsHidden(int32_t token) const;
  // What a token adds to the text; where that is for channels, with marks of special tokens.
  std::string TextOf(int32_t token);
  void AddText(const std::string& text, ChoiceDelta* delta);
  void End(wire::FinishReason reason, ChoiceDelta* delta);
  // Find these in what the text of `delta` says so far, and leave the rest, but for whitespace
  // between reasoning and text.
  void FindReasoning(ChoiceDelta* delta);
  void FindCalls(ChoiceDelta* delta);
  void ReleaseLogprobs(bool all, ChoiceDelta* delta);
  LogprobEntry MakeEntry(int32_t token, const wire::Logprobs& logprobs) const;

  const CompletionRequest& request_;
  const CompletionPrompt& prompt_;
  const Tokenizer& tokenizer_;
  const bool hides_special_tokens_;  // but for those
  IncrementalDetokenizer detokenizer_;
  StopMatcher matcher_;
  std::unique_ptr<ReasoningReader> reasoning_;  // or null
  const bool is_in_channels_;                   // what that reads
  std::string calls_text_;                      // it has found there
  std::optional<ToolCallParser> tool_calls_;
  bool started_ = false;
  bool is_between_ = false;                 // reasoning and text
  std::optional<std::string> stop_string_;  // that has ended the text
  int64_t num_tokens_ = 0;
  int64_t num_reasoning_tokens_ = 0;
  size_t offset_ = 0;          // code points detokenized so far, the echoed prompt included
  size_t produced_bytes_ = 0;  // of generated text
  size_t released_bytes_ = 0;
  std::deque<PendingLogprob> pending_logprobs_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CHOICE_OUTPUT_H_

// The messages in the text of a model that writes for channels (gateway/harmony.h), told apart as
// they come.

#ifndef ARIL_GATEWAY_CHANNEL_PARSER_H_
#define ARIL_GATEWAY_CHANNEL_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/reasoning_reader.h"
#include "grammar/tool_calls.h"

namespace aril::gateway {

// Reads text in which special tokens have grammar::kSpecialTokenMark around them: what is only
// spelled like one is text. Messages for the final channel, and those for commentary that are for
// nobody else, are the answer, each on a line of its own. The call of one of a request's tools, in
// whichever way it is written, comes as `calls` has it (which must outlive this; null: nothing is a
// call). All other messages are reasoning. A text without headers is an answer. Not thread-safe.
class ChannelParser final : public ReasoningReader {
 public:
  // `has_begun`: with a message of reasoning, of which the prompt has the header.
  ChannelParser(const grammar::ToolCallSyntax* calls, bool has_begun)
      : calls_(calls), state_(has_begun ? State::kReasoning : State::kHeader) {}

  // A header that was cut is nothing.
  ReasonedText Flush() override;
  // Another message may come at any time: ChoiceOutput must show the tokens that say so.
  bool is_over() const override { return false; }
  bool is_behind() const override { return false; }

 private:
  enum class State : uint8_t { kHeader, kReasoning, kAnswer, kCall };

  bool is_reasoning() const override { return state_ == State::kReasoning; }
  bool Step(ReasonedText* out) override;
  bool TakeHeader(ReasonedText* out);
  bool TakeMessage(std::string* out);
  // What comes behind a header.
  State Classify(const std::string& header, ReasonedText* out);
  bool has_said_nothing() const { return !has_reasoning_ && !has_answer_ && !has_call_; }

  const grammar::ToolCallSyntax* const calls_;
  State state_;
  bool has_reasoning_ = false;  // messages of it
  bool has_answer_ = false;
  bool has_call_ = false;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CHANNEL_PARSER_H_

// The reasoning before the answer in the text of a model, told apart as it comes.

#ifndef ARIL_GATEWAY_REASONING_PARSER_H_
#define ARIL_GATEWAY_REASONING_PARSER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/reasoning_syntax.h"

namespace aril::gateway {

struct ReasonedText {
  std::string reasoning;
  std::string answer;
};

// Text is reasoning if it begins with the syntax's `begin`, or where that was in the prompt, up to
// the first `end`, or where it is cut; without the whitespace around it, and around the tags. What
// comes behind it is the answer, whatever it says. Not thread-safe; the syntax must outlive it.
class ReasoningParser {
 public:
  ReasoningParser(const ReasoningSyntax& syntax, bool has_begun)
      : syntax_(syntax), state_(has_begun ? State::kReasoning : State::kStart) {}

  ReasonedText Append(std::string_view text);
  // What was held back, at the end.
  ReasonedText Flush();

  // The last text was reasoning, or has ended it.
  bool was_reasoning() const { return was_reasoning_; }

 private:
  enum class State : uint8_t { kStart, kReasoning, kBehind, kAnswer };

  // One state further, if there is enough of the text.
  bool Step(ReasonedText* out);
  bool TakeReasoning(ReasonedText* out);

  const ReasoningSyntax& syntax_;
  State state_;
  bool has_text_ = false;  // of reasoning: whitespace is no longer what it begins with
  bool was_reasoning_ = false;
  std::string held_;  // what is not decided, and whitespace that may be the last of reasoning
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REASONING_PARSER_H_

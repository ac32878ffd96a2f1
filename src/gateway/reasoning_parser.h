// The reasoning before the answer in the text of a model, told apart as it comes.

#ifndef ARIL_GATEWAY_REASONING_PARSER_H_
#define ARIL_GATEWAY_REASONING_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/reasoning_reader.h"
#include "gateway/reasoning_syntax.h"

namespace aril::gateway {

// Text is reasoning if it begins with the syntax's `begin`, with some whitespace before it
// (grammar::kMaxSpaces), or where that was in the prompt, up to the first `end`, or where it is
// cut; without the whitespace that it begins with, and kMaxHeldSpaces of what it ends with. What
// comes behind it is the answer, whatever it says. Not thread-safe; the syntax must outlive it.
class ReasoningParser final : public ReasoningReader {
 public:
  // Of whitespace that may be the last of reasoning: more of it is reasoning.
  static constexpr size_t kMaxHeldSpaces = 256;

  ReasoningParser(const ReasoningSyntax& syntax, bool has_begun)
      : syntax_(syntax), state_(has_begun ? State::kReasoning : State::kStart) {}

  ReasonedText Flush() override;
  bool is_over() const override { return is_behind() || state_ == State::kAnswer; }
  bool is_behind() const override { return state_ == State::kBehind; }

 private:
  enum class State : uint8_t { kStart, kReasoning, kBehind, kAnswer };

  bool is_reasoning() const override { return state_ == State::kReasoning; }
  bool Step(ReasonedText* out) override;
  bool TakeStart();
  bool TakeReasoning(ReasonedText* out);

  const ReasoningSyntax& syntax_;
  State state_;
  bool has_text_ = false;  // of reasoning: whitespace is no longer what it begins with
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REASONING_PARSER_H_

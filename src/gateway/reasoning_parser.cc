#include "gateway/reasoning_parser.h"

#include <algorithm>
#include <utility>

#include "gateway/text.h"
#include "grammar/free_text.h"

namespace aril::gateway {

ReasonedText ReasoningParser::Flush() {
  ReasonedText out;
  // What may have been a tag is none.
  if (state_ == State::kStart) out.answer = std::move(held_);
  if (state_ == State::kReasoning) {
    const std::string_view rest = StripRight(held_);
    out.reasoning = has_text_ ? rest : StripLeft(rest);
  }
  held_.clear();
  return out;
}

bool ReasoningParser::Step(ReasonedText* out) {
  switch (state_) {
    case State::kStart:
      return TakeStart();
    case State::kReasoning:
      return TakeReasoning(out);
    case State::kBehind:
    case State::kAnswer:
      break;
  }
  out->answer += std::exchange(held_, {});
  return false;
}

bool ReasoningParser::TakeStart() {
  const std::string_view text = StripLeft(held_);
  const size_t num_spaces = held_.size() - text.size();
  const bool may_begin = num_spaces <= static_cast<size_t>(grammar::kMaxSpaces);
  if (may_begin && text.starts_with(syntax_.begin)) {
    held_.erase(0, num_spaces + syntax_.begin.size());
    state_ = State::kReasoning;
    return true;
  }
  if (may_begin && syntax_.begin.starts_with(text)) return false;
  state_ = State::kAnswer;
  return true;
}

bool ReasoningParser::TakeReasoning(ReasonedText* out) {
  if (!has_text_) held_.erase(0, held_.size() - StripLeft(held_).size());
  const size_t end = held_.find(syntax_.end);
  const bool is_over = end != std::string::npos;
  const size_t size = is_over ? end : held_.size() - NumBegun(held_, syntax_.end);
  const std::string_view text = std::string_view(held_).substr(0, size);
  const size_t num_said = std::max(StripRight(text).size(), size - std::min(size, kMaxHeldSpaces));
  out->reasoning += text.substr(0, num_said);
  has_text_ |= num_said > 0;
  held_.erase(0, is_over ? end + syntax_.end.size() : num_said);
  if (is_over) state_ = State::kBehind;
  return is_over;
}

}  // namespace aril::gateway

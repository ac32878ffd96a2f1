#include "engine/bounded_reasoning.h"

#include "grammar/free_text.h"

namespace aril {

BoundedReasoning::BoundedReasoning(const wire::ReasoningBudget& budget,
                                   std::span<const int32_t> output)
    : budget_(&budget),
      state_(budget.begin ? State::kBefore : State::kInside),
      num_left_(budget.max_tokens) {
  for (const int32_t token : output) Append(token);
}

void BoundedReasoning::Append(int32_t token) {
  if (state_ == State::kBefore) {
    if (token == budget_->begin) {
      state_ = State::kInside;
    } else if (++num_before_ > grammar::kMaxSpaces) {
      state_ = State::kBehind;  // there is none: each of so many spaces has a character or more
    }
  } else if (state_ == State::kInside) {
    if (token == budget_->closing.back()) {
      state_ = State::kBehind;
    } else if (num_left_ > 0) {
      --num_left_;
    } else if (token == budget_->closing[num_closed_]) {
      ++num_closed_;
    }
  }
}

std::optional<int32_t> BoundedReasoning::NextOfClosing() const {
  if (state_ != State::kInside || num_left_ > 0) return std::nullopt;
  return budget_->closing[num_closed_];
}

bool BoundedReasoning::MayCloseBehind(int64_t num_tokens) const {
  switch (state_) {
    case State::kBefore:
      return num_tokens > num_left_;  // of which the first begins it
    case State::kInside:
      return num_tokens >= num_left_;
    case State::kBehind:
      return false;
  }
  return false;
}

int64_t BoundedReasoning::CountChosen(std::span<const int32_t> tokens) const {
  BoundedReasoning behind = *this;
  int64_t count = 0;
  while (count < std::ssize(tokens) && !behind.NextOfClosing()) {
    behind.Append(tokens[static_cast<size_t>(count++)]);
  }
  return count;
}

}  // namespace aril

// How far a sequence is with reasoning that has a budget.

#ifndef ARIL_ENGINE_BOUNDED_REASONING_H_
#define ARIL_ENGINE_BOUNDED_REASONING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/reasoning_budget.h"

namespace aril {

// By the tokens of its output, which say all of it: it is the same after an eviction, and where an
// earlier attempt has given them. The budget must outlive it. Used by one thread; copies are cheap.
class BoundedReasoning {
 public:
  BoundedReasoning(const wire::ReasoningBudget& budget, std::span<const int32_t> output);

  void Append(int32_t token);
  // What comes next, once the budget is spent; nullopt: the model chooses.
  std::optional<int32_t> NextOfClosing() const;
  // Whether there could be one behind that many tokens that are not known yet.
  bool MayCloseBehind(int64_t num_tokens) const;
  // How many of these tokens may come before there is one.
  int64_t CountChosen(std::span<const int32_t> tokens) const;

 private:
  enum class State : uint8_t { kBefore, kInside, kBehind };

  const wire::ReasoningBudget* budget_;
  State state_;
  int64_t num_before_ = 0;  // tokens
  int64_t num_left_;        // of reasoning
  size_t num_closed_ = 0;   // of `closing`, once nothing is left
};

}  // namespace aril

#endif  // ARIL_ENGINE_BOUNDED_REASONING_H_

// How long a sequence may think before it answers, in tokens: whoever runs it knows no texts.

#ifndef ARIL_WIRE_REASONING_BUDGET_H_
#define ARIL_WIRE_REASONING_BUDGET_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace aril::wire {

// Reasoning begins with the output, or behind `begin`, if that is its first token or has a few
// before it, which may be whitespace; and ends with the first token behind that which is the last
// of `closing`. If max_tokens of it have come without that, `closing` follows, as if the model had
// chosen it; at once, or, where the output's format does not let it follow (in the middle of a
// character), as soon as that does.
struct ReasoningBudget {
  int32_t max_tokens = 0;
  std::optional<int32_t> begin = std::nullopt;  // nullopt: it has begun in the prompt
  std::vector<int32_t> closing = {};            // 1 to kMaxReasoningClosingTokens (wire/limits.h)
  // Else it is no error if nobody keeps to it. Of no meaning to who runs the sequence.
  bool is_required = true;

  bool operator==(const ReasoningBudget&) const = default;
};

}  // namespace aril::wire

#endif  // ARIL_WIRE_REASONING_BUDGET_H_

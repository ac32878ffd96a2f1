#include "gateway/reasoning_fields.h"

#include "gateway/special_text.h"

namespace aril::gateway {

ReasoningFields ReadReasoning(JsonFields& fields) {
  const std::string format = fields.GetString("reasoning_format", "auto");
  if (format != "auto" && format != "deepseek" && format != "none") {
    fields.Fail("reasoning_format", "must be \"auto\", \"deepseek\" or \"none\"");
  }
  return {.is_apart = format != "none", .is_shown = fields.GetBool("include_reasoning", true)};
}

std::optional<ReasoningReading> ReadingOf(const ReasoningFields& fields,
                                          const std::optional<ReasoningSyntax>& syntax,
                                          std::string_view prompt, std::optional<size_t> answer,
                                          const Tokenizer& tokenizer) {
  if (!fields.is_apart || !syntax) return std::nullopt;
  const ReasoningState state = StateBehind(prompt, answer, *syntax);
  if (state == ReasoningState::kIsOver) return std::nullopt;
  ReasoningReading reading = {.syntax = *syntax,
                              .special_tokens = {},
                              .has_begun = state == ReasoningState::kHasBegun,
                              .is_shown = fields.is_shown};
  for (const std::string& tag : {syntax->begin, syntax->end}) {
    for (const PlacedToken& special : FindSpecialTokens(tag, tokenizer)) {
      reading.special_tokens.push_back(special.token);
    }
  }
  return reading;
}

wire::Reasoning ToWire(const ReasoningReading& reading, const Tokenizer& tokenizer) {
  return {.begin = reading.has_begun ? "" : MarkSpecialTokens(reading.syntax.begin, tokenizer),
          .end = MarkSpecialTokens(reading.syntax.end, tokenizer)};
}

}  // namespace aril::gateway

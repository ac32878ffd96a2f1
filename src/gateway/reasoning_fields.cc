#include "gateway/reasoning_fields.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "gateway/prompt_tokens.h"
#include "gateway/special_text.h"
#include "wire/limits.h"

namespace aril::gateway {
namespace {

constexpr const char* kClosingMessage = "reasoning_budget_message";
constexpr size_t kMaxClosingMessageBytes = wire::kMaxReasoningClosingTokens * kMaxBytesPerToken;

// By any of its names; -1 is none.
void ReadBudget(JsonFields& fields, ReasoningFields* out) {
  std::optional<int64_t> budget;
  for (const char* name :
       {"thinking_token_budget", "reasoning_budget_tokens", "thinking_budget_tokens"}) {
    const auto tokens = fields.FindInt(name, -1, INT32_MAX);
    if (!tokens) continue;
    if (budget && *budget != *tokens) {
      fields.Fail(name, StrCat("is not what `", out->budget_field, "` says"));
    }
    budget = tokens;
    out->budget_field = name;
  }
  if (budget && *budget >= 0) out->max_tokens = static_cast<int32_t>(*budget);
  out->closing_message = fields.GetString(kClosingMessage, "");
}

// The token that is this tag, and that the model has; nothing if there is none.
std::optional<int32_t> TokenOf(const std::string& tag, const ModelText& text) {
  const std::vector<int32_t> tokens =
      text.tokenizer->Encode(tag, {.add_special_tokens = false, .parse_special_tokens = true});
  if (tokens.size() != 1 || tokens[0] >= text.vocab_size) return std::nullopt;
  // Of a tag in characters that it does not know, a tokenizer makes one token, too.
  const std::string bytes = text.tokenizer->TokenBytes(tokens[0], /*is_first=*/false,
                                                       /*skip_special_tokens=*/false);
  return bytes == tag ? std::optional(tokens[0]) : std::nullopt;
}

// The message's tokens, and the end.
ApiResult<std::vector<int32_t>> Closing(const std::string& message, const std::string& end_tag,
                                        int32_t end, const ModelText& text) {
  if (message.size() > kMaxClosingMessageBytes) {
    return InvalidField(kClosingMessage, StrCat("`", kClosingMessage, "` has ", message.size(),
                                                " bytes; ", kMaxClosingMessageBytes, " may be."));
  }
  if (message.find(end_tag) != std::string::npos) {
    return InvalidField(kClosingMessage,
                        StrCat("`", kClosingMessage, "` must not have ", JsonQuote(end_tag),
                               " in it, which is what comes behind it."));
  }
  std::vector<int32_t> closing =
      text.tokenizer->Encode(message, {.add_special_tokens = false, .parse_special_tokens = false});
  closing.push_back(end);
  if (closing.size() > wire::kMaxReasoningClosingTokens) {
    return InvalidField(kClosingMessage,
                        StrCat("`", kClosingMessage, "` has ", closing.size() - 1, " tokens; ",
                               wire::kMaxReasoningClosingTokens - 1, " may be."));
  }
  if (std::ranges::max(closing) >= text.vocab_size) {
    return InvalidField(kClosingMessage, StrCat("`", kClosingMessage,
                                                "` holds a token that the model does not have."));
  }
  return closing;
}

}  // namespace

ReasoningFields ReadReasoning(JsonFields& fields) {
  const std::string format = fields.GetString("reasoning_format", "auto");
  if (format != "auto" && format != "deepseek" && format != "none") {
    fields.Fail("reasoning_format", "must be \"auto\", \"deepseek\" or \"none\"");
  }
  ReasoningFields reasoning = {.is_apart = format != "none",
                               .is_shown = fields.GetBool("include_reasoning", true)};
  ReadBudget(fields, &reasoning);
  return reasoning;
}

std::optional<ReasoningReading> ReadingOf(const ReasoningFields& fields,
                                          const ReasoningSyntax& syntax, ReasoningState state,
                                          const Tokenizer& tokenizer) {
  // As it is, what is for channels would be no text. They are told by special tokens.
  const bool is_in_channels =
      syntax.is_in_channels() && !FindSpecialTokens(syntax.answer, tokenizer).empty();
  const bool is_apart = syntax.is_in_channels() ? is_in_channels : fields.is_apart;
  if (!is_apart || state == ReasoningState::kIsOver) return std::nullopt;
  ReasoningReading reading = {.syntax = syntax,
                              .special_tokens = {},
                              .has_begun = state == ReasoningState::kHasBegun,
                              .is_shown = fields.is_shown};
  for (const std::string& tag : {syntax.begin, syntax.end, syntax.answer}) {
    for (const PlacedToken& special : FindSpecialTokens(tag, tokenizer)) {
      reading.special_tokens.push_back(special.token);
    }
  }
  return reading;
}

ApiResult<std::optional<wire::ReasoningBudget>> BudgetOf(const ReasoningFields& fields,
                                                         const ReasoningSyntax& syntax,
                                                         ReasoningState state,
                                                         const ModelText& text) {
  using Budget = std::optional<wire::ReasoningBudget>;
  if (!fields.max_tokens || state == ReasoningState::kIsOver) return Budget();
  wire::ReasoningBudget budget = {.max_tokens = *fields.max_tokens,
                                  .is_required = !fields.budget_field.empty()};
  const auto end = TokenOf(syntax.end, text);
  const bool may_begin = state == ReasoningState::kMayBegin;
  if (may_begin) budget.begin = TokenOf(syntax.begin, text);
  if (!end || (may_begin && !budget.begin)) {
    if (!budget.is_required) return Budget();
    const std::string& field = fields.budget_field;
    return InvalidField(
        field, StrCat("`", field, "` cannot be kept to: to this model, ",
                      JsonQuote(end ? syntax.begin : syntax.end),
                      " of its reasoning is not one token, but several. Leave it out: `max_tokens` "
                      "bounds reasoning and answer together."));
  }
  auto closing = Closing(fields.closing_message, syntax.end, *end, text);
  if (!closing.ok()) return closing.error();
  budget.closing = std::move(closing.value());
  return Budget(std::move(budget));
}

wire::Reasoning ToWire(const ReasoningReading& reading, const Tokenizer& tokenizer) {
  return {.begin = reading.has_begun ? "" : MarkSpecialTokens(reading.syntax.begin, tokenizer),
          .end = MarkSpecialTokens(reading.syntax.end, tokenizer),
          .answer = MarkSpecialTokens(reading.syntax.answer, tokenizer)};
}

}  // namespace aril::gateway

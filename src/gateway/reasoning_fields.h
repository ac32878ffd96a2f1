// What a chat request says of reasoning: `include_reasoning` and `thinking_token_budget`, as in
// vLLM, `reasoning_format`, `reasoning_budget_tokens` and `reasoning_budget_message`, as in
// llama-server (docs/api.md lists what they may be).

#ifndef ARIL_GATEWAY_REASONING_FIELDS_H_
#define ARIL_GATEWAY_REASONING_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/completion_request.h"
#include "gateway/json_fields.h"
#include "tokenizer/tokenizer.h"
#include "wire/output_format.h"
#include "wire/reasoning_budget.h"

namespace aril::gateway {

struct ReasoningFields {
  bool is_apart = true;  // else it is text like any other
  bool is_shown = true;
  // How many tokens of it, and the field that must be kept to; "" if it bounds nothing where it
  // cannot be. Once they are spent, the message is the last of it.
  std::optional<int32_t> max_tokens = {};
  std::string budget_field = {};
  std::string closing_message = {};
  // For the template; without them: what that does by itself.
  std::string effort = {};  // how much of it
  std::optional<bool> is_wanted = {};
};

// All but what is for the template, which each endpoint has in fields of its own. Errors stay in
// `fields`.
ReasoningFields ReadReasoning(JsonFields& fields);

// How to read an answer that begins in this state; nothing if there is no reasoning in it, or it is
// not to be told apart. Thread-safe.
std::optional<ReasoningReading> ReadingOf(const ReasoningFields& fields,
                                          const ReasoningSyntax& syntax, ReasoningState state,
                                          const Tokenizer& tokenizer);

// What bounds reasoning in it; nothing if there is none of it, or no bound, or the bound is one
// that need not be kept to and cannot be: the engine, which ends it, must know what it begins and
// ends with by one token of each. Thread-safe.
ApiResult<std::optional<wire::ReasoningBudget>> BudgetOf(const ReasoningFields& fields,
                                                         const ReasoningSyntax& syntax,
                                                         ReasoningState state,
                                                         const ModelText& text);

// As a part of a format. Thread-safe.
wire::Reasoning ToWire(const ReasoningReading& reading, const Tokenizer& tokenizer);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REASONING_FIELDS_H_

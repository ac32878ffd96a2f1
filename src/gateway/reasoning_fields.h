// What a chat request says of reasoning: `include_reasoning`, as in vLLM, and `reasoning_format`,
// as in llama-server (docs/api.md lists what they may be).

#ifndef ARIL_GATEWAY_REASONING_FIELDS_H_
#define ARIL_GATEWAY_REASONING_FIELDS_H_

#include <optional>
#include <string>
#include <string_view>

#include "gateway/completion_request.h"
#include "gateway/json_fields.h"
#include "tokenizer/tokenizer.h"
#include "wire/output_format.h"

namespace aril::gateway {

struct ReasoningFields {
  bool is_apart = true;  // else it is text like any other
  bool is_shown = true;
  // For the template; without them: what that does by itself.
  std::string effort = {};  // how much of it
  std::optional<bool> is_wanted = {};
};

// All but what is for the template, which each endpoint has in fields of its own. Errors stay in
// `fields`.
ReasoningFields ReadReasoning(JsonFields& fields);

// How to read an answer to this prompt; nothing if there is no reasoning in it, or it is not to be
// told apart. `answer`: as of StateBehind. Thread-safe.
std::optional<ReasoningReading> ReadingOf(const ReasoningFields& fields,
                                          const std::optional<ReasoningSyntax>& syntax,
                                          std::string_view prompt, std::optional<size_t> answer,
                                          const Tokenizer& tokenizer);

// As a part of a format. Thread-safe.
wire::Reasoning ToWire(const ReasoningReading& reading, const Tokenizer& tokenizer);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REASONING_FIELDS_H_

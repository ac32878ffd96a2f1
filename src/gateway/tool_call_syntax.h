// How a model writes calls of tools, learned from its chat template: a call in the history of a
// conversation is shown to the model as it is to write one.

#ifndef ARIL_GATEWAY_TOOL_CALL_SYNTAX_H_
#define ARIL_GATEWAY_TOOL_CALL_SYNTAX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "grammar/tool_calls.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace aril::gateway {

// Renders a conversation in which a tool is called, and looks where in the text the call's parts
// are. `next` is there if the template writes several calls of one turn, each in the same way.
// FailedPrecondition says why calls cannot be learned: a template that does not show tools to the
// model, or no calls, or in a form that is no ToolCallSyntax. (Harmony's is known, whatever of it
// is shown.) `end_tokens`: those that end the model's texts, which are no part of a call. Takes
// up to seven renderings. Thread-safe.
StatusOr<grammar::ToolCallSyntax> LearnToolCallSyntax(const ChatTemplate& chat_template,
                                                      const Tokenizer& tokenizer,
                                                      std::span<const int32_t> end_tokens);

// With grammar::kSpecialTokenMark around each special token, as a grammar wants it. Thread-safe.
grammar::ToolCallSyntax MarkSpecialTokens(const grammar::ToolCallSyntax& syntax,
                                          const Tokenizer& tokenizer);

// These tokens. Thread-safe.
std::vector<int32_t> SpecialTokensOf(const grammar::ToolCallSyntax& syntax,
                                     const Tokenizer& tokenizer);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TOOL_CALL_SYNTAX_H_

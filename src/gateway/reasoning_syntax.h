// What a model's reasoning begins and ends with, learned from its chat template.

#ifndef ARIL_GATEWAY_REASONING_SYNTAX_H_
#define ARIL_GATEWAY_REASONING_SYNTAX_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/chat_template.h"

namespace aril::gateway {

// Tags, or special tokens: <think> and </think>.
struct ReasoningSyntax {
  std::string begin;
  std::string end;
  // What an answer begins with where a turn is a series of messages for channels
  // (gateway/harmony.h): `end` is what comes between them. Empty elsewhere.
  std::string answer = {};

  bool is_in_channels() const { return !answer.empty(); }

  bool operator==(const ReasoningSyntax&) const = default;
};

// Of a template that shows an assistant's `reasoning_content` between two tags before its content,
// or takes what is between <think>, or what it ends a prompt with, and its end tag out of content;
// of one that writes for channels, Harmony's; else nothing. Takes six renderings at most.
// Thread-safe.
std::optional<ReasoningSyntax> LearnReasoningSyntax(const ChatTemplate& chat_template);

// Where an answer begins.
enum class ReasoningState {
  kMayBegin,  // with reasoning, if the model wants to
  kHasBegun,  // in the middle of it
  kIsOver,    // behind it: what follows is no reasoning
};

// Behind a prompt; `answer`: of one that ends with the beginning of the answer, where that begins.
ReasoningState StateBehind(std::string_view prompt, std::optional<size_t> answer,
                           const ReasoningSyntax& syntax);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REASONING_SYNTAX_H_

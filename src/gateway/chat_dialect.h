// How a model writes its part of a conversation: by its chat template, and what is learned from it.

#ifndef ARIL_GATEWAY_CHAT_DIALECT_H_
#define ARIL_GATEWAY_CHAT_DIALECT_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/status.h"
#include "gateway/reasoning_syntax.h"
#include "grammar/tool_calls.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace aril::gateway {

// What is learned is learned when it is first asked for. Thread-safe.
class ChatDialect {
 public:
  explicit ChatDialect(ChatTemplate chat_template) : chat_template_(std::move(chat_template)) {}

  const ChatTemplate& chat_template() const { return chat_template_; }
  // As LearnToolCallSyntax. The arguments are the same each time.
  const StatusOr<grammar::ToolCallSyntax>& ToolCalls(const Tokenizer& tokenizer,
                                                     std::span<const int32_t> end_tokens) const;
  // As LearnReasoningSyntax.
  const std::optional<ReasoningSyntax>& Reasoning() const;
  // As ShowsLaterSystem of its template.
  bool ShowsLaterSystem() const;

 private:
  const ChatTemplate chat_template_;
  mutable std::once_flag tool_calls_once_;
  mutable StatusOr<grammar::ToolCallSyntax> tool_calls_ = grammar::ToolCallSyntax();
  mutable std::once_flag reasoning_once_;
  mutable std::optional<ReasoningSyntax> reasoning_;
  mutable std::once_flag later_system_once_;
  mutable bool shows_later_system_ = false;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CHAT_DIALECT_H_

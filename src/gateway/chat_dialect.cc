#include "gateway/chat_dialect.h"

#include "gateway/system_turns.h"
#include "gateway/tool_call_syntax.h"

namespace aril::gateway {

const StatusOr<grammar::ToolCallSyntax>& ChatDialect::ToolCalls(
    const Tokenizer& tokenizer, std::span<const int32_t> end_tokens) const {
  std::call_once(tool_calls_once_,
                 [&] { tool_calls_ = LearnToolCallSyntax(chat_template_, tokenizer, end_tokens); });
  return tool_calls_;
}

const std::optional<ReasoningSyntax>& ChatDialect::Reasoning() const {
  std::call_once(reasoning_once_, [&] { reasoning_ = LearnReasoningSyntax(chat_template_); });
  return reasoning_;
}

bool ChatDialect::ShowsLaterSystem() const {
  std::call_once(later_system_once_,
                 [&] { shows_later_system_ = gateway::ShowsLaterSystem(chat_template_); });
  return shows_later_system_;
}

}  // namespace aril::gateway

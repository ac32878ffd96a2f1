// The conversation of a request to /v1/messages: messages of blocks, in Anthropic's form.

#ifndef ARIL_GATEWAY_ANTHROPIC_INPUT_H_
#define ARIL_GATEWAY_ANTHROPIC_INPUT_H_

#include "base/json.h"
#include "gateway/api_error.h"

namespace aril::gateway {

struct AnthropicInput {
  Json messages;          // of a chat (gateway/chat_messages.h)
  bool is_begun = false;  // the answer is the rest of the last one, an assistant's
};

// What an array of messages stands for whose contents are texts, or blocks of text, thinking, uses
// of tools and their results; behind `system`, a text or blocks of it, if that is not null.
// Messages in a row that have one role are one, as in Anthropic's API; a tool's result is one of
// its own. 400 names the block. Thread-safe.
ApiResult<AnthropicInput> ReadAnthropicInput(const Json& messages, const Json* system);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ANTHROPIC_INPUT_H_

// The input of a request to /v1/responses: items, which are a conversation in finer pieces.

#ifndef ARIL_GATEWAY_RESPONSE_INPUT_H_
#define ARIL_GATEWAY_RESPONSE_INPUT_H_

#include <string>

#include "base/json.h"
#include "gateway/api_error.h"

namespace aril::gateway {

// The messages of a chat (gateway/chat_messages.h) that a text, or an array of messages, calls of
// functions, their outputs and reasoning, stands for, behind the instructions if there are any.
// What an assistant thought, said and called in a row is one message, as templates know them, and
// so is what the system says in a row. 400 names the item. Thread-safe.
ApiResult<Json> MessagesOfInput(const Json& input, const std::string& instructions);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_RESPONSE_INPUT_H_

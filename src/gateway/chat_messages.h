// The messages of a chat request, checked and brought into the form that chat templates expect.

#ifndef ARIL_GATEWAY_CHAT_MESSAGES_H_
#define ARIL_GATEWAY_CHAT_MESSAGES_H_

#include "base/json.h"
#include "gateway/api_error.h"

namespace aril::gateway {

// An array of messages: `content` becomes a string (text parts joined by newlines, null empty), the
// arguments of tool calls become objects, as vLLM does it; members that are null go, and reasoning
// gets the names that templates read, as in transformers; everything else stays for the template.
// 400 names the message.
ApiResult<Json> NormalizeMessages(const Json& messages);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CHAT_MESSAGES_H_

// The messages of a chat request, checked and brought into the form that chat templates expect.

#ifndef ARIL_GATEWAY_CHAT_MESSAGES_H_
#define ARIL_GATEWAY_CHAT_MESSAGES_H_

#include <string>

#include "base/json.h"
#include "gateway/api_error.h"

namespace aril::gateway {

// An array of messages: `content` becomes a string (text parts joined by newlines, null empty), the
// arguments of tool calls become objects, as vLLM does it; members that are null go, and reasoning
// gets the names that templates read, as in transformers; everything else stays for the template.
// 400 names the message.
ApiResult<Json> NormalizeMessages(const Json& messages);

// A message's content: a string, or an array of text parts, which are joined by newlines. 400 names
// `where`.
ApiResult<std::string> TextOf(const Json& content, const std::string& where);

// The object that the text of a call's arguments is; an empty one for none. Likewise.
ApiResult<Json> ParseArguments(const std::string& text, const std::string& where);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CHAT_MESSAGES_H_

// What the system says between others' turns, which many chat templates refuse, or leave out.

#ifndef ARIL_GATEWAY_SYSTEM_TURNS_H_
#define ARIL_GATEWAY_SYSTEM_TURNS_H_

#include "base/json.h"
#include "tokenizer/chat_template.h"

namespace aril::gateway {

// Whether the template shows it, and in its place. Thread-safe.
bool ShowsLaterSystem(const ChatTemplate& chat_template);

// `messages`: as NormalizeMessages leaves them. Thread-safe, as the next one.
bool HasLaterSystem(const Json& messages);

// Makes it a part of a user's turn, before or behind what that says, or one of its own, between
// <system-reminder> and </system-reminder>: it keeps its place, and what is before it stays what it
// was, and cached.
void FoldLaterSystem(Json* messages);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_SYSTEM_TURNS_H_

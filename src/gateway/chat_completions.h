// POST /v1/chat/completions: OpenAI's chat API, plus vLLM's extensions (docs/api.md lists them).

#ifndef ARIL_GATEWAY_CHAT_COMPLETIONS_H_
#define ARIL_GATEWAY_CHAT_COMPLETIONS_H_

#include <string_view>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/completion_request.h"
#include "gateway/json_fields.h"

namespace aril::gateway {

// Checks `body`, applies the chat template and tokenizes the result: takes time in proportion to
// the body. Thread-safe, as all functions here.
ApiResult<CompletionRequest> ParseChatRequest(std::string_view body, const RequestContext& context);

// The tokens of `messages` as the template of the adapter, or of the base model, shows them to the
// model, with its tools. 400 for what a chat would refuse of them. `is_over`: no answer is to
// follow (Conversation::is_over).
ApiResult<std::vector<int32_t>> EncodeChat(JsonFields& fields, const RequestContext& context,
                                           AdapterId adapter, bool is_over = false);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CHAT_COMPLETIONS_H_

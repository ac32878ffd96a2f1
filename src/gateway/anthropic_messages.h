// POST /v1/messages, and /v1/messages/count_tokens: Anthropic's messages API, as far as it needs no
// server but this one, plus vLLM's extensions (docs/api.md lists them).

#ifndef ARIL_GATEWAY_ANTHROPIC_MESSAGES_H_
#define ARIL_GATEWAY_ANTHROPIC_MESSAGES_H_

#include <string_view>

#include "base/json.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

// Checks `body`, applies the chat template and tokenizes the result: takes time in proportion to
// the body. Thread-safe.
ApiResult<CompletionRequest> ParseMessagesRequest(std::string_view body,
                                                  const RequestContext& context);

// CountTokens of such a request: `{"input_tokens"}`. Thread-safe.
ApiResult<Json> CountMessagesTokens(std::string_view body, const RequestContext& context);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ANTHROPIC_MESSAGES_H_

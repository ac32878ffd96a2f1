// POST /v1/responses, and /v1/responses/input_tokens: OpenAI's responses API, as far as it keeps
// nothing, plus vLLM's extensions (docs/api.md lists them).

#ifndef ARIL_GATEWAY_RESPONSES_H_
#define ARIL_GATEWAY_RESPONSES_H_

#include <string_view>

#include "base/json.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

// Checks `body`, applies the chat template and tokenizes the result: takes time in proportion to
// the body. Thread-safe.
ApiResult<CompletionRequest> ParseResponsesRequest(std::string_view body,
                                                   const RequestContext& context);

// CountTokens of such a request: `{"object", "input_tokens"}`. Thread-safe.
ApiResult<Json> CountInputTokens(std::string_view body, const RequestContext& context);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_RESPONSES_H_

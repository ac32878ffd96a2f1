// POST /v1/completions: OpenAI's legacy completions API, plus vLLM's extensions (docs/api.md lists
// them). Unknown fields are accepted; a known one of a wrong type or value is an error that names
// it.

#ifndef ARIL_GATEWAY_COMPLETIONS_H_
#define ARIL_GATEWAY_COMPLETIONS_H_

#include <string_view>

#include "gateway/api_error.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

// Checks `body` and tokenizes its prompts: takes time in proportion to the body. Thread-safe.
ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                    const RequestContext& context);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_COMPLETIONS_H_

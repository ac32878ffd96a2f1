// POST /v1/embeddings: OpenAI's embeddings API, plus vLLM's `normalize`, or `use_activation`, and
// `add_special_tokens` (docs/api.md). Unknown fields are accepted; a known one of a wrong type or
// value is an error that names it.

#ifndef ARIL_GATEWAY_EMBEDDINGS_H_
#define ARIL_GATEWAY_EMBEDDINGS_H_

#include <string_view>

#include "gateway/api_error.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

// Checks `body` and tokenizes its texts: takes time in proportion to the body. Thread-safe.
ApiResult<CompletionRequest> ParseEmbeddingsRequest(std::string_view body,
                                                    const RequestContext& context);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_EMBEDDINGS_H_

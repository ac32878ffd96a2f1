// POST /tokenize and POST /detokenize, in vLLM's form.

#ifndef ARIL_GATEWAY_TOKENIZE_API_H_
#define ARIL_GATEWAY_TOKENIZE_API_H_

#include <string_view>

#include "base/json.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

// `{"prompt", "add_special_tokens"}`, or `{"model", "messages", …}` as for a chat, to
// `{"count", "max_model_len", "tokens"}`.
ApiResult<Json> Tokenize(std::string_view body, const RequestContext& context);

// `{"tokens"}` to `{"prompt"}`, special tokens included.
ApiResult<Json> Detokenize(std::string_view body, const RequestContext& context);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TOKENIZE_API_H_

// What computes prompts alone is asked about (/v1/embeddings, /v1/classify): `input`, or as in vLLM
// `messages`, and what goes with them.

#ifndef ARIL_GATEWAY_TEXTS_INPUT_H_
#define ARIL_GATEWAY_TEXTS_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "gateway/completion_request.h"
#include "gateway/json_fields.h"

namespace aril::gateway {

// Most texts of one request, as with OpenAI.
inline constexpr size_t kMaxTexts = 2048;
// Most numbers of one answer: 8 MB, and some 25 MB as text.
inline constexpr int64_t kMaxPooledNumbers = int64_t{2} << 20;

// The prompts of a request whose model has been read: of its texts, or of its conversation, which
// ends with its last message. The answer has at most so many numbers of each. Refuses what would
// ask for something else. Takes time in proportion to the body. Thread-safe.
std::optional<ApiError> ReadTexts(JsonFields& fields, const RequestContext& context,
                                  int64_t max_numbers_per_text, CompletionRequest* request);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TEXTS_INPUT_H_

// A conversation that a model is to go on with: what /v1/chat/completions, /v1/responses and
// /v1/messages have in common, from its messages to the prompt, and to how its answer is read.

#ifndef ARIL_GATEWAY_CONVERSATION_H_
#define ARIL_GATEWAY_CONVERSATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"
#include "gateway/json_fields.h"
#include "gateway/reasoning_fields.h"
#include "gateway/tool_fields.h"

namespace aril::gateway {

struct Conversation {
  std::string field;  // of the request that has it: "messages", "input"
  Json messages;      // as NormalizeMessages leaves them
  ToolFields tools = {};
  ReasoningFields reasoning = {};
  std::optional<int64_t> max_tokens = {};  // of the answer; nullopt: as many as fit
  bool may_fill_context = false;           // if no more than that fit, there may be fewer
  // What the system says between others is a part of a user's turn, if the template does not show
  // it.
  bool folds_system = false;
  // The answer is the rest of the last message; or there is to be none. Unless the request says
  // otherwise.
  bool is_begun = false;
  bool is_over = false;
};

// Its tokens, as the template of the adapter, or of the base model, shows it to the model. Reads
// the fields that concern the template: chat_template_kwargs and the like. Thread-safe, as all
// functions here.
ApiResult<std::vector<int32_t>> EncodeConversation(Conversation conversation, JsonFields& fields,
                                                   const RequestContext& context,
                                                   AdapterId adapter);

// The conversation in a request's fields, as an endpoint has them; or its first error, which need
// not be of these.
using ConversationReader = ApiResult<Conversation> (*)(JsonFields& fields);

// How many tokens the model would get of a request with such a body; also if they are more than it
// takes, unless no tokenizer could make them fit (EncodeText). Without `model`, by the base model's
// template.
ApiResult<int64_t> CountTokens(std::string_view body, const RequestContext& context,
                               ConversationReader read);

// Makes it the one prompt of a request whose model and generation fields have been read: applies
// the template, tokenizes the result (takes time in proportion to it), and says how reasoning and
// calls are found in the answer. 400 if that cannot be; nullopt: it is done.
std::optional<ApiError> AskFor(Conversation conversation, JsonFields& fields,
                               const RequestContext& context, CompletionRequest* request);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CONVERSATION_H_

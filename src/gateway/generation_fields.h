// The fields that /v1/completions, /v1/chat/completions, /v1/responses and /v1/messages have in
// common: OpenAI's, plus vLLM's extensions (docs/api.md lists them).

#ifndef ARIL_GATEWAY_GENERATION_FIELDS_H_
#define ARIL_GATEWAY_GENERATION_FIELDS_H_

#include <cstdint>
#include <optional>

#include "gateway/api_error.h"
#include "gateway/completion_request.h"
#include "gateway/json_fields.h"

namespace aril::gateway {

// Most adapters of one request.
inline constexpr size_t kMaxAdaptersPerRequest = 8;

// Most of them that one answer may have. As JSON each takes some hundred bytes while it is put
// together.
inline constexpr int64_t kMaxLogprobsOfAnswer = int64_t{1} << 20;
// Most of the prompt's in a stream, whose first event has them all and is put together between
// those of others (a whole answer is not).
inline constexpr int64_t kMaxLogprobsOfEvent = int64_t{1} << 16;
// Most of them that the ends of a message in a stream of /v1/responses repeat, four times.
inline constexpr int64_t kMaxLogprobsRepeated = kMaxLogprobsOfEvent / 4;

// What a name stands for, ready to be used. Of a name that is split, the share of the request: by
// its `user`, else `safety_identifier`, else `prompt_cache_key`, else `seed`, else
// `metadata.user_id`, else at random; the errors of these fields stay in `fields`. 404 if the
// tenant may not use it; 500 if the files of a registered adapter cannot be read any more; while it
// is loaded for the first time, 503 with `awaited_model`, and afterwards, if that failed, why.
// Takes as long as opening the files, or, where that is not allowed, ends with `closed_adapter`.
ApiResult<CatalogEntryPtr> FindModel(const std::string& name, JsonFields& fields,
                                     const RequestContext& context);

// `model` and `adapters`: who is asked. The errors of FindModel, and 400 for a list of adapters
// that is none.
std::optional<ApiError> ResolveModel(JsonFields& fields, const RequestContext& context,
                                     CompletionRequest* request);

// Of a request whose model has been resolved: n, sampling, stops, streaming, the output's format,
// which remains to be checked, and what is refused on all endpoints. Errors stay in `fields`.
void ReadGenerationFields(JsonFields& fields, const ServedModel& model, CompletionRequest* request);

// The same where a request has one answer, whose form is not OpenAI's older one.
void ReadGenerationFieldsOfOne(JsonFields& fields, const ServedModel& model,
                               CompletionRequest* request);

// `priority`, of which the lower goes first, as in vLLM, as wire::SequenceRequest has it.
int32_t ReadPriority(JsonFields& fields);

// The limit of a completion, in tokens; checked against min_tokens.
std::optional<int64_t> ReadMaxTokens(JsonFields& fields, std::string_view name, int64_t min,
                                     const CompletionRequest& request);

// 400 if the request asks for more sequences than one request may. `param`: the field to blame for
// the number of prompts.
std::optional<ApiError> CheckNumSequences(int64_t num_prompts, const CompletionRequest& request,
                                          const CompletionLimits& limits);

// 400 if the answer may have more logprobs than fit into memory beside those of others: of each
// token (of a stream, of the prompt's with `echo`), the alternatives included.
std::optional<ApiError> CheckNumLogprobs(const CompletionRequest& request);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_GENERATION_FIELDS_H_

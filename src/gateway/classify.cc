#include "gateway/classify.h"

#include "gateway/generation_fields.h"
#include "gateway/json_fields.h"
#include "gateway/texts_input.h"
#include "spec/classifier_spec.h"

namespace aril::gateway {

ApiResult<CompletionRequest> ParseClassifyRequest(std::string_view body,
                                                  const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  CompletionRequest request = {.endpoint = Endpoint::kClassify};
  request.common.pooling = wire::Pooling::kClassProbabilities;
  if (auto error = ResolveModel(fields, context, &request)) return *error;
  for (const char* name : {"activation", "use_activation"}) {  // vLLM's word, and its newer one
    if (!fields.GetBool(name, true)) request.common.pooling = wire::Pooling::kClassLogits;
  }
  if (auto error = ReadTexts(fields, context, kMaxClassLabels, &request)) return *error;
  return request;
}

}  // namespace aril::gateway

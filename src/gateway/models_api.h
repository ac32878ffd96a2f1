// GET /v1/models and GET /v1/models/{id}.

#ifndef ARIL_GATEWAY_MODELS_API_H_
#define ARIL_GATEWAY_MODELS_API_H_

#include <string>
#include <string_view>

#include "base/json.h"
#include "gateway/api_error.h"
#include "gateway/served_model.h"

namespace aril::gateway {

// The base model and every adapter that the tenant may use.
Json ListModels(const ServedModel& model, std::string_view tenant);

// 404 for a name that the tenant may not use, whether it exists or not.
ApiResult<Json> DescribeModel(const ServedModel& model, std::string_view tenant,
                              const std::string& name);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_MODELS_API_H_

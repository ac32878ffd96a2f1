// Adapters that come, change and go while the server runs: /v1/adapters, and vLLM's
// /v1/load_lora_adapter and /v1/unload_lora_adapter.

#ifndef ARIL_GATEWAY_ADAPTERS_API_H_
#define ARIL_GATEWAY_ADAPTERS_API_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "catalog/catalog.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"
#include "gateway/served_model.h"

namespace aril::gateway {

// Makes adapters ready for requests. Thread-safe.
class AdapterLoader {
 public:
  virtual ~AdapterLoader() = default;
  // Verifies the adapter at `source` completely; takes as long as reading it. InvalidArgument or
  // NotFound says what is wrong with it.
  virtual StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) = 0;
};

// The adapters that the tenant may use.
Json ListAdapters(const ServedModel& model, std::string_view tenant);
ApiResult<Json> DescribeAdapter(const ServedModel& model, std::string_view tenant,
                                const std::string& name);

// `{"lora_name", "lora_path", "load_inplace"}`: loads an adapter and gives it a name; returns what
// to tell the client. 409 if the name is taken and load_inplace is not true. With it the name moves
// when the new adapter is ready, and what runs goes on with the old one. Takes time; any thread.
ApiResult<std::string> LoadAdapter(std::string_view body, const RequestContext& context,
                                   AdapterLoader& loader);
// `{"lora_name"}`: from now on nobody can ask for it; what runs goes on. Any thread.
ApiResult<std::string> UnloadAdapter(std::string_view body, const RequestContext& context);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTERS_API_H_

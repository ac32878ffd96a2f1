// Adapters that come, change and go while the server runs: /v1/adapters, and vLLM's
// /v1/load_lora_adapter and /v1/unload_lora_adapter.

#ifndef ARIL_GATEWAY_ADAPTERS_API_H_
#define ARIL_GATEWAY_ADAPTERS_API_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "catalog/catalog.h"
#include "gateway/adapter_loads.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"
#include "gateway/remote_loader.h"
#include "gateway/served_model.h"

namespace aril::gateway {

// Makes adapters ready for requests. Thread-safe.
class AdapterLoader {
 public:
  virtual ~AdapterLoader() = default;
  // Verifies the adapter at `source` completely; takes as long as reading it. Where changes survive
  // a restart its files have been taken over when this returns. InvalidArgument or NotFound says
  // what is wrong with it.
  virtual StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) = 0;
  // What Load would give or say; nothing of it stays.
  virtual StatusOr<Generation::Description> Verify(const std::string& source) = 0;
  // A generation that a name has stood for, by its digest. NotFound if its files are not kept.
  virtual StatusOr<std::shared_ptr<const Generation>> Recall(const std::string& digest) = 0;
};

// How adapters get here that are not in a folder of this machine. All of it outlives the loads.
struct RemoteAdapters {
  RemoteLoader* loader = nullptr;  // null: only adapters in folders can be loaded
  AdapterLoads* loads = nullptr;   // null as well, then
  const Clock* clock = nullptr;
};

// The adapters that the tenant may use, those that are being loaded included.
Json ListAdapters(const RequestContext& context);
ApiResult<Json> DescribeAdapter(const std::string& name, const RequestContext& context);

// What changes adapters takes time, and may run on any thread. What runs goes on with the
// generation that it began with.

// An adapter as it is now.
struct PutAnswer {
  bool is_new = false;
  bool is_loading = false;  // what was asked for will be there later, or not
  Json adapter;
};
// PUT /v1/adapters/{name}: `{"source"}` or `{"generation"}` or `{"split"}` (or none, with `pin`),
// `{"expected_generation", "ttl_seconds", "pin", "digest", "sha256"}`. With `dry_run=true` in the
// query everything is verified and nothing changed. 409 if the name stands for another generation
// than expected, or is not the tenant's. A source that has to be fetched is, after the answer.
ApiResult<PutAnswer> PutAdapter(const std::string& name, std::string_view query,
                                std::string_view body, const RequestContext& context,
                                AdapterLoader& loader, const RemoteAdapters& remote = {});
// The same with files that the client has sent: `dry_run`, `expected_generation`, `ttl_seconds` and
// `digest` are in the query.
ApiResult<PutAnswer> PutUpload(const std::string& name, std::string_view query,
                               StatusOr<GenerationStore::Incoming> upload,
                               const RequestContext& context, const RemoteAdapters& remote);
// What is wrong with a change of that name, before its body is there.
std::optional<ApiError> CheckName(const std::string& name, const RequestContext& context);
// DELETE /v1/adapters/{name}, with `expected_generation` in the query where it matters.
// Ends its load as well.
ApiResult<Json> DeleteAdapter(const std::string& name, std::string_view query,
                              const RequestContext& context, const RemoteAdapters& remote = {});

// `{"lora_name", "lora_path", "load_inplace"}`: loads an adapter and gives it a name; returns what
// to tell the client. 409 if the name is taken and load_inplace is not true. With it the name moves
// when the new adapter is ready.
//
// A source that has to be fetched is, after the return (nullopt): the outcome goes to `later`, on
// any thread.
using LoadOutcome = ApiResult<std::string>;
ApiResult<std::optional<std::string>> LoadAdapter(std::string_view body,
                                                  const RequestContext& context,
                                                  AdapterLoader& loader,
                                                  const RemoteAdapters& remote = {},
                                                  std::function<void(LoadOutcome)> later = nullptr);
// `{"lora_name"}`: from now on nobody can ask for it.
ApiResult<std::string> UnloadAdapter(std::string_view body, const RequestContext& context,
                                     const RemoteAdapters& remote = {});

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTERS_API_H_

// Adapters that come, change and go while the server runs: what changes them beneath /v1/adapters,
// and vLLM's /v1/load_lora_adapter and /v1/unload_lora_adapter.

#ifndef ARIL_GATEWAY_ADAPTERS_API_H_
#define ARIL_GATEWAY_ADAPTERS_API_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "catalog/generation_store.h"
#include "gateway/adapter_changes.h"
#include "gateway/adapter_loader.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

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
// than expected, or is not the tenant's. A source that has to be fetched is, after the answer; to
// be verified only, after the return (nullopt): the answer goes to `later`, on any thread.
ApiResult<std::optional<PutAnswer>> PutAdapter(
    const std::string& name, std::string_view query, std::string_view body,
    const RequestContext& context, AdapterLoader& loader, const RemoteLoading& remote = {},
    std::function<void(const ApiResult<PutAnswer>&)> later = nullptr);
// The same with files that the client has sent: `dry_run`, `expected_generation`, `ttl_seconds` and
// `digest` are in the query.
ApiResult<PutAnswer> PutUpload(const std::string& name, std::string_view query,
                               StatusOr<GenerationStore::Incoming> upload,
                               const RequestContext& context, const RemoteLoading& remote);
// What is wrong with a change of that name, before its body is there.
std::optional<ApiError> CheckName(const std::string& name, const RequestContext& context);
// DELETE /v1/adapters/{name}, with `expected_generation` in the query where it matters.
// Ends its load as well.
ApiResult<Json> DeleteAdapter(const std::string& name, std::string_view query,
                              const RequestContext& context, const RemoteLoading& remote = {});

// `{"lora_name", "lora_path", "load_inplace"}`: loads an adapter and gives it a name; returns what
// to tell the client. 409 if the name is taken and load_inplace is not true. With it the name moves
// when the new adapter is ready.
//
// A source that has to be fetched is, after the return (nullopt): the outcome goes to `later`, on
// any thread.
using LoadOutcome = ApiResult<std::string>;
ApiResult<std::optional<std::string>> LoadAdapter(
    std::string_view body, const RequestContext& context, AdapterLoader& loader,
    const RemoteLoading& remote = {}, std::function<void(const LoadOutcome&)> later = nullptr);
// `{"lora_name"}`: from now on nobody can ask for it.
ApiResult<std::string> UnloadAdapter(std::string_view body, const RequestContext& context,
                                     const RemoteLoading& remote = {});

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTERS_API_H_

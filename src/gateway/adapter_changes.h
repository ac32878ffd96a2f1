// Changes of adapters, carried out: what a name is to stand for is obtained, pinned where that is
// wanted, and put into the catalog.

#ifndef ARIL_GATEWAY_ADAPTER_CHANGES_H_
#define ARIL_GATEWAY_ADAPTER_CHANGES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "catalog/catalog.h"
#include "gateway/adapter_change_request.h"
#include "gateway/adapter_loader.h"
#include "gateway/adapter_loads.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"
#include "gateway/remote_loader.h"

namespace aril::gateway {

// How adapters get here that are not in a folder of this machine. All of it outlives the loads.
struct RemoteLoading {
  RemoteLoader* loader = nullptr;  // null: only adapters in folders can be loaded
  AdapterLoads* loads = nullptr;   // null as well, then
  const Clock* clock = nullptr;
  // Told of each source that was fetched, or could not be; on any thread. May be empty.
  std::function<void(std::string_view source, const Status& outcome, int64_t bytes, Duration took)>
      on_fetch = nullptr;
};

// The names of an API's fields, for its errors.
struct ChangeParams {
  std::string_view name;
  std::string_view source;
};

// All of these take as long as reading an adapter does, and may run on any thread that holds
// loads->changes().

// With a source that is a folder here, a generation, a split, or none.
ApiResult<CatalogEntryPtr> ApplyChange(AdapterChange change, const RequestContext& context,
                                       AdapterLoader& loader, const RemoteLoading& remote,
                                       const ChangeParams& params);
// With files that are here already. The tenant may change the name.
ApiResult<CatalogEntryPtr> ApplyUpload(AdapterChange change, GenerationStore::Incoming upload,
                                       const RequestContext& context, const RemoteLoading& remote);
Status RemoveAdapter(const std::string& name, const Catalog::Expected& expected,
                     const RequestContext& context);

// Whether the source has to be fetched.
bool IsRemote(const AdapterChange& change, const RemoteLoading& remote);
// Begins to fetch it; the change is made on a thread of the loads.
std::optional<ApiError> StartLoad(AdapterChange change, const RequestContext& context,
                                  const RemoteLoading& remote, const ChangeParams& params,
                                  AdapterLoads::Done done = nullptr);
// Begins to fetch it, to see what it is; nothing of it stays. `done` is called on any thread.
using Verified = StatusOr<Generation::Description>;
std::optional<ApiError> StartTrial(const AdapterChange& change, const RequestContext& context,
                                   const RemoteLoading& remote, const ChangeParams& params,
                                   std::function<void(const Verified&)> done);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTER_CHANGES_H_

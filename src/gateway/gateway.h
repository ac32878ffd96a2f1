// The HTTP surface: which path does what, and who may ask.

#ifndef ARIL_GATEWAY_GATEWAY_H_
#define ARIL_GATEWAY_GATEWAY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/work_queue.h"
#include "gateway/adapter_changes.h"
#include "gateway/adapter_loader.h"
#include "gateway/adapter_loads.h"
#include "gateway/api_call.h"
#include "gateway/api_error.h"
#include "gateway/auth.h"
#include "gateway/body_sink.h"
#include "gateway/completion_service.h"
#include "gateway/http_message.h"
#include "gateway/load_waiters.h"
#include "gateway/metrics.h"
#include "gateway/remote_loader.h"
#include "gateway/request_queues.h"
#include "gateway/served_model.h"
#include "gateway/tenant_limits.h"
#include "gateway/upload_slots.h"
#include "wire/ports.h"

namespace aril::gateway {

struct GatewayOptions {
  CompletionLimits limits;
  int64_t max_in_flight = 1024;
  int64_t max_in_flight_of_tenant = INT64_MAX;
  TenantLimitTable tenant_limits;
  ApiKeys api_keys;  // none: everybody may ask, as the default tenant
  std::string version;
  const Clock* clock = nullptr;  // outlives the gateway
  Metrics* metrics = nullptr;    // likewise
  PostFunction post;             // onto the server's thread
  PostAfterFunction post_after;  // likewise; empty: requests wait for no adapter
  // How long a request may wait for an adapter that is being loaded for the first time.
  Duration max_load_wait = std::chrono::seconds(60);
  AdapterLoads::Options loads;
  int64_t max_upload_bytes = int64_t{4} << 30;  // of an adapter
  Duration upload_timeout = std::chrono::minutes(10);
  // How often names that have expired are removed; zero: when others change.
  Duration sweep_interval = Duration::zero();
  std::function<uint64_t()> random;  // 64 unpredictable bits; on the server's thread
  // The runners are other processes, and there is no way yet to give them adapters at run time.
  bool is_in_cluster = false;
};

// On the server's thread, unless a method says otherwise.
class Gateway {
 public:
  explicit Gateway(GatewayOptions options);

  void Handle(HttpRequest request, std::shared_ptr<HttpResponder> responder);
  // Uploads are written while they arrive; everything else goes into the request.
  // A body that nobody may send is not read.
  BodyPlan PlanBody(const HttpRequest& head);

  // Until Serve, everything that needs a model is answered with 503. `port`, `loader` and `remote`
  // must outlive the gateway; without a loader the adapters stay as they are, and without `remote`
  // only folders can be loaded.
  void Serve(std::shared_ptr<const ServedModel> model, wire::SequencePort* port,
             AdapterLoader* loader = nullptr, RemoteLoader* remote = nullptr);

  // From now on; of requests in work nothing changes.
  void SetApiKeys(ApiKeys keys) { api_keys_ = std::move(keys); }
  void SetTenantLimits(TenantLimitTable limits) { completions_.SetTenantLimits(std::move(limits)); }

  // From now on /ready says no; requests are still answered.
  void SetDraining() { draining_ = true; }
  // Ends every request in flight with 503, or an error event.
  void FailAll(const std::string& reason);

  // Where the runner's events go in. Its OnStep may be called on any thread.
  wire::EventSink& sink() { return completions_.sink(); }

 private:
  struct Route;
  struct FoundRoute;
  // What a request's body is answered with; nullopt if the function answers itself. Takes time, and
  // may run on any thread.
  using BodyFunction = std::function<std::optional<HttpResponse>(const std::string& body,
                                                                 const RequestContext& context)>;
  using RouteHandler = void (Gateway::*)(ApiCall);
  static FoundRoute FindRoute(const HttpRequest& request);

  void Dispatch(const FoundRoute& found, ApiCall call);
  BodyPlan PlanUpload(const HttpRequest& head, const std::string& tenant);
  RequestContext ContextOf(std::string_view tenant, const ServedModel& model) const;
  // Answers on the queue's thread, in its turn (the tenant's, where no lane is given); or, if the
  // queue is full, with 503 and false.
  bool AnswerOn(WorkQueue& queue, std::shared_ptr<const ApiCall> call, BodyFunction function,
                bool may_open = false, WorkQueue::Lane lane = std::nullopt);
  // The same for what uses a model: at once, or, if its files have to be opened, where nobody else
  // waits.
  using ModelFunction = ApiResult<Json> (*)(std::string_view body, const RequestContext& context);
  void AnswerWithModel(ApiCall call, ModelFunction function);
  // Why nobody can upload an adapter as `tenant`, under the name in the path.
  std::optional<ApiError> CheckUpload(const HttpRequest& head, const std::string& tenant) const;
  // The same for what changes the adapters, or 403 if they are fixed.
  bool ChangeAdapters(ApiCall call, BodyFunction function);
  // Removes what has expired, now and then again.
  void SweepExpired();

  void HandleHealth(ApiCall call);
  void HandleReady(ApiCall call);
  void HandleVersion(ApiCall call);
  void HandleMetrics(ApiCall call);
  void HandleModels(ApiCall call);
  void HandleModel(ApiCall call);
  template <Endpoint kEndpoint>
  void HandleRequest(ApiCall call) {
    completions_.Handle(kEndpoint, std::move(call));
  }
  template <ModelFunction kFunction>
  void HandleWithModel(ApiCall call) {
    AnswerWithModel(std::move(call), kFunction);
  }
  void HandleKeptResponse(ApiCall call);
  void HandleAdapters(ApiCall call);
  void HandleAdapter(ApiCall call);
  void HandlePutAdapter(ApiCall call);
  void HandleUpload(ApiCall call);
  void HandleDeleteAdapter(ApiCall call);
  void HandleLoadAdapter(ApiCall call);
  void HandleUnloadAdapter(ApiCall call);
  void HandleOpenApi(ApiCall call);

  const GatewayOptions options_;
  ApiKeys api_keys_;
  std::shared_ptr<const ServedModel> model_;  // null while it loads
  const wire::SequencePort* port_ = nullptr;  // null while it loads
  AdapterLoader* loader_ = nullptr;           // null: adapters cannot be changed
  RemoteLoading remote_;
  bool draining_ = false;
  CompletionService completions_;
  UploadSlots upload_slots_;
  // Last: their threads must end before anything else does.
  std::unique_ptr<AdapterLoads> loads_;  // null: there are none
  WorkQueue uploads_;
  WorkQueue openings_;
  RequestQueues work_;
  WorkQueue adapter_changes_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_GATEWAY_H_

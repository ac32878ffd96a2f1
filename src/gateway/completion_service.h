// All requests for completions in flight: admission, submission, events, cancellation.

#ifndef ARIL_GATEWAY_COMPLETION_SERVICE_H_
#define ARIL_GATEWAY_COMPLETION_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/work_queue.h"
#include "gateway/api_call.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"
#include "gateway/completion_session.h"
#include "gateway/event_inbox.h"
#include "gateway/http_message.h"
#include "gateway/load_waiters.h"
#include "gateway/metrics.h"
#include "gateway/rate_limiter.h"
#include "gateway/request_queues.h"
#include "gateway/served_model.h"
#include "gateway/tenant_limits.h"
#include "wire/ports.h"

namespace aril::gateway {

struct CompletionServiceOptions {
  CompletionLimits limits;
  int64_t max_in_flight = 1024;  // requests; more are answered with 503
  // Of them, one tenant's; more are answered with 429, so that others find room.
  int64_t max_in_flight_of_tenant = INT64_MAX;
  TenantLimitTable tenant_limits;
  const Clock* clock = nullptr;  // these three outlive the service
  Metrics* metrics = nullptr;
  PostFunction post;
  PostAfterFunction post_after;  // empty: nobody waits for adapters that are being loaded
  Duration max_load_wait = std::chrono::seconds(60);
  RequestQueues* work = nullptr;     // for parsing and tokenizing, and for long answers
  WorkQueue* openings = nullptr;     // the same, of requests whose adapters' files are closed
  std::function<uint64_t()> random;  // 64 unpredictable bits
};

// On the server's thread, except for sink(). What `work` and `post` still hold must not run after
// its end.
class CompletionService {
 public:
  explicit CompletionService(CompletionServiceOptions options);
  CompletionService(const CompletionService&) = delete;
  CompletionService& operator=(const CompletionService&) = delete;

  // From now on requests are accepted. `port` must outlive the service, and so must `loads`; null:
  // nothing is ever being loaded.
  void Serve(std::shared_ptr<const ServedModel> model, wire::SequencePort* port,
             AdapterLoads* loads = nullptr);

  void Handle(Endpoint endpoint, ApiCall call);

  // From now on; what tenants have used counts against them.
  void SetTenantLimits(TenantLimitTable limits) {
    rates_.SetLimits(std::move(limits), options_.clock->Now());
  }

  // Ends every request in flight with `error`, those that are still being parsed when they are.
  void FailAll(const ApiError& error);

  // Where the runner's events go in.
  wire::EventSink& sink() { return inbox_; }

  // Requests that are not answered yet, those still being parsed included.
  int64_t num_in_flight() const { return num_in_flight_; }

 private:
  struct Pending;  // a request that is being parsed
  struct Live {
    explicit Live(CompletionSessionOptions options) : session(std::move(options)) {}
    CompletionSession session;
    std::vector<SequenceId> sequences;  // by choice: of those that have been submitted
    int64_t num_running = 0;            // those of them that have not ended
    bool released = false;
  };
  struct Target {
    std::shared_ptr<Live> live;
    int64_t choice_idx = 0;
  };

  // False if there is too much to do already. Opens no adapter's files: others would wait.
  bool Parse(const std::shared_ptr<Pending>& pending);
  // The same, but opens the files of `adapter`.
  bool ParseOpening(AdapterId adapter, const std::shared_ptr<Pending>& pending);
  std::function<void()> Parsing(const std::shared_ptr<Pending>& pending, bool may_open);
  void OnParsed(std::shared_ptr<Pending> pending, ApiResult<CompletionRequest> parsed);
  // Parses it again when the adapter that it asks for has been loaded; false if it cannot wait.
  bool WaitForLoad(const std::shared_ptr<Pending>& pending, const ApiError& error);
  void OnWaited(const std::shared_ptr<Pending>& pending, const ApiError& error,
                LoadWaiters::Outcome outcome);
  void Refuse(const std::shared_ptr<Pending>& pending, const ApiError& error);
  void Begin(std::shared_ptr<Pending> pending, CompletionRequest request);
  // Those that are still to come, as many as one request may have at a time; fewer, if the runner
  // has no room for them and others of the request are to end, after which it is asked again.
  Status SubmitMore(const std::shared_ptr<Live>& live, TimePoint arrival);
  void OnEvents(std::vector<wire::TokenEvent> events);
  void OnEvent(const Target& target, wire::TokenEvent event);
  // What a library threw ends this request alone.
  void OnBadEvent(const std::shared_ptr<Live>& live, const std::exception& exception);
  void AnswerLater(const std::shared_ptr<Live>& live);
  void OnDisconnect(const std::shared_ptr<Live>& live);
  // Cancels what still runs and forgets the request. Once is enough: an answer whose last event
  // finds its client gone both ends and is disconnected.
  void Release(const std::shared_ptr<Live>& live);
  // At once, before anything is known of the request.
  void TurnAway(const ApiCall& call, const ApiError& error);
  HttpResponse Refusal(const ApiCall& call, const ApiError& error) const;
  HttpHeaders RateFields(const std::string& tenant) const;
  // Why the tenant may have no more requests in work; nullopt: it may.
  std::optional<ApiError> CheckInFlight(const std::string& tenant) const;
  // The same of requests and tokens per minute. Takes them.
  std::optional<ApiError> TakeRequest(const std::string& tenant);
  std::optional<ApiError> TakePrompts(const CompletionRequest& request);
  std::optional<ApiError> ErrorOf(const std::string& tenant,
                                  const std::optional<RateExcess>& excess);
  void AddInFlight(const std::string& tenant, int64_t change);
  std::string NewId(Endpoint endpoint);

  const CompletionServiceOptions options_;
  std::shared_ptr<const ServedModel> model_;
  wire::SequencePort* port_ = nullptr;
  AdapterLoads* loads_ = nullptr;
  LoadWaiters waiters_;
  int64_t next_sequence_ = 0;
  int64_t num_in_flight_ = 0;
  std::unordered_map<std::string, int64_t> in_flight_of_;  // tenants that have any
  RateLimiter rates_;
  std::optional<ApiError> closed_;  // since FailAll: what becomes of requests
  std::set<std::shared_ptr<Pending>> pending_;
  std::unordered_map<SequenceId, Target> targets_;
  std::set<std::shared_ptr<Live>> owed_;  // their sequences have ended
  EventInbox inbox_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_COMPLETION_SERVICE_H_

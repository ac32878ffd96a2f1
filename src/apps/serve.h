// `aril serve`: gateway and runner in one process; and the same for requests of that process alone.

#ifndef ARIL_APPS_SERVE_H_
#define ARIL_APPS_SERVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/served_model.h"
#include "base/clock.h"
#include "base/file_watch.h"
#include "base/status.h"
#include "gateway/auth.h"
#include "gateway/completion_request.h"
#include "gateway/http_message.h"
#include "gateway/http_server.h"
#include "gateway/tenant_limits.h"
#include "runner/local_runner.h"
#include "scheduler/policies.h"
#include "sources/source_policy.h"

namespace aril {

struct ServeOptions {
  LocalRunnerOptions runner;              // its adapter_dirs are filled in by Serve
  std::string adapters_dir;               // empty: none
  std::vector<std::string> lora_modules;  // "name=path"
  // Folders beneath which clients may name adapters to load; none: they may not.
  std::vector<std::string> adapter_roots;
  // Where what clients load is kept for the next start; empty: it is forgotten.
  std::string state_dir;
  bool skip_bad_adapters = false;
  SourcePolicy sources;  // what may be fetched; needs a state_dir
  // How long a request waits for an adapter that is being loaded for the first time.
  Duration adapter_load_wait = std::chrono::seconds(60);
  TextSources text;
  gateway::HttpServerOptions http;
  gateway::CompletionLimits limits;
  int64_t max_in_flight = 1024;
  // Not given: with turns of tenants half of max_in_flight, else no bound.
  std::optional<int64_t> max_in_flight_of_tenant;
  scheduler::PolicyOptions policies;
  std::vector<gateway::ApiKey> api_keys;  // none: everybody may ask
  gateway::TenantLimitTable tenant_limits;
  // The files that these and the certificate were read from, to be read again when they change;
  // empty: none.
  std::string api_key_file;
  std::string tenant_limits_file;
  // As they were when they were read first.
  struct {
    FileWatch api_keys, tenant_limits, certificate;
  } watches;
  // From a signal to end on: for how long connections are still accepted, while /ready says no;
  // then, how long what is in work may take.
  Duration drain_delay = Duration::zero();
  Duration drain_timeout = std::chrono::seconds(30);
};

// Serves until one of the TerminationSignals, then drains. An error if it cannot start.
Status Serve(const ServeOptions& options, const Clock& clock);

// Asks for an answer, which comes on another thread.
using AskFunction =
    std::function<void(gateway::HttpRequest, std::shared_ptr<gateway::HttpResponder>)>;
// Has `use` ask until it returns, whose status is the result; by then all must be answered. Nobody
// else can: there is no HTTP, and whoever asks is the default tenant, without limits.
Status ServeInside(ServeOptions options, const Clock& clock,
                   const std::function<Status(const AskFunction& ask)>& use);

}  // namespace aril

#endif  // ARIL_APPS_SERVE_H_

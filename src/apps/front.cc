#include "apps/front.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace aril {
namespace {

// What ending takes beyond the drain: answers that are left are ended, threads are joined, and
// gigabytes of memory given back.
constexpr std::chrono::microseconds kEndGrace = std::chrono::seconds(15);
constexpr Duration kSweepInterval = std::chrono::minutes(1);
constexpr Duration kSettingsInterval = std::chrono::seconds(1);

}  // namespace

Front::Front(std::unique_ptr<gateway::HttpServer> server, const ServeOptions& options,
             const Clock& clock, Place place)
    : place_(place),
      drain_delay_(options.drain_delay),
      drain_timeout_(options.drain_timeout),
      metrics_(place == Place::kCluster ? gateway::Metrics::Process::kGateway
                                        : gateway::Metrics::Process::kServer),
      server_(std::move(server)),
      gateway_({.limits = options.limits,
                .max_in_flight = options.max_in_flight,
                .max_in_flight_of_tenant =
                    options.max_in_flight_of_tenant.value_or(options.max_in_flight),
                .tenant_limits = options.tenant_limits,
                .api_keys = gateway::ApiKeys(options.api_keys),
                .version = ARIL_VERSION,
                .clock = &clock,
                .metrics = &metrics_,
                .post = [this](std::function<void()> f) { server_->Post(std::move(f)); },
                .post_after =
                    [this](Duration after, std::function<void()> f) {
                      server_->PostAfter(after, std::move(f));
                    },
                .max_load_wait = options.adapter_load_wait,
                .max_upload_bytes = options.sources.max_bytes,
                .upload_timeout = options.sources.timeout,
                .sweep_interval = kSweepInterval,
                .random = [this] { return Random64(); },
                .is_in_cluster = place == Place::kCluster}),
      thread_([this] {
        server_->Run(
            [this](gateway::HttpRequest request,
                   std::shared_ptr<gateway::HttpResponder> responder) {
              gateway_.Handle(std::move(request), std::move(responder));
            },
            [this](const gateway::HttpRequest& head) { return gateway_.PlanBody(head); });
      }),
      settings_reloader_(Settings(options), kSettingsInterval,
                         [this](const std::string& flag, const Status& outcome) {
                           metrics_.OnSettingsReload(flag, outcome);
                         }) {}

std::vector<SettingsReloader::Setting> Front::Settings(const ServeOptions& options) {
  std::vector<SettingsReloader::Setting> settings;
  if (const std::string& path = options.api_key_file; !path.empty()) {
    settings.push_back({"--api-key-file", options.watches.api_keys, [this, path]() -> Status {
                          ASSIGN_OR_RETURN(auto keys, gateway::ReadApiKeyFile(path));
                          server_->Post([this, keys = gateway::ApiKeys(std::move(keys))] {
                            gateway_.SetApiKeys(keys);
                          });
                          return OkStatus();
                        }});
  }
  if (const std::string& path = options.tenant_limits_file; !path.empty()) {
    settings.push_back(
        {"--tenant-limits-file", options.watches.tenant_limits, [this, path]() -> Status {
           ASSIGN_OR_RETURN(auto limits, gateway::ReadTenantLimitsFile(path));
           server_->Post([this, limits = std::move(limits)] { gateway_.SetTenantLimits(limits); });
           return OkStatus();
         }});
  }
  if (!options.http.ssl_certfile.empty()) {
    settings.push_back({"--ssl-certfile", options.watches.certificate,
                        [this] { return server_->ReloadCertificate(); }});
  }
  return settings;
}

Front::~Front() { Stop(); }

void Front::Stop() {
  server_->Stop();
  if (thread_.joinable()) thread_.join();
}

void Front::Begin(std::shared_ptr<const gateway::ServedModel> model, wire::SequencePort* port,
                  gateway::AdapterLoader* loader, gateway::RemoteLoader* remote) {
  server_->Post([this, model = std::move(model), port, loader, remote] {
    if (place_ == Place::kInside) return gateway_.Serve(model, port, loader, remote);
    server_->OnTerminationSignal([this] { Drain(); });
    gateway_.Serve(model, port, loader, remote);
    service_manager_.Ready();
  });
}

void Front::ServeUntilSignal() { thread_.join(); }

void Front::Handle(gateway::HttpRequest request,
                   std::shared_ptr<gateway::HttpResponder> responder) {
  server_->Post([this, request = std::move(request), responder = std::move(responder)]() mutable {
    gateway_.Handle(std::move(request), std::move(responder));
  });
}

void Front::Drain() {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  LogInfo("Shutting down: finishing the requests in work. A second signal ends at once.");
  service_manager_.Stopping(duration_cast<microseconds>(drain_delay_) +
                            duration_cast<microseconds>(drain_timeout_) + kEndGrace);
  gateway_.SetDraining();
  // Until it is noticed that /ready says no, requests still come, and are served.
  server_->PostAfter(drain_delay_, [this] {
    server_->Drain(drain_timeout_, [this] { gateway_.FailAll("The server is shutting down."); });
  });
}

}  // namespace aril

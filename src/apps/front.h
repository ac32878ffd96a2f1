// The HTTP side of a process: `aril serve` and `aril gateway` have the same, and `aril run-batch`
// one without sockets.

#ifndef ARIL_APPS_FRONT_H_
#define ARIL_APPS_FRONT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "apps/serve.h"
#include "apps/service_manager.h"
#include "apps/settings_reloader.h"
#include "base/clock.h"
#include "gateway/gateway.h"
#include "gateway/http_server.h"
#include "gateway/metrics.h"
#include "wire/ports.h"

namespace aril {

// The HTTP server on a thread of its own, with the gateway behind it. It answers from the start, so
// that probes can tell loading from broken.
class Front {
 public:
  // The runners are in this process, or elsewhere; or they are, and so is who asks, by Handle, and
  // whose signals are its own.
  enum class Place { kOneProcess, kCluster, kInside };

  Front(std::unique_ptr<gateway::HttpServer> server, const ServeOptions& options,
        const Clock& clock, Place place);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;
  ~Front();

  // From now on the model answers, and a signal lets it finish what is in work: already who first
  // sees it ready may send one. Each but the model may be null except `port`, and must outlive
  // this.
  void Begin(std::shared_ptr<const gateway::ServedModel> model, wire::SequencePort* port,
             gateway::AdapterLoader* loader, gateway::RemoteLoader* remote);
  // Returns when a signal has come and what was in work is done.
  void ServeUntilSignal();
  // As if it had come over HTTP; answers on the server's thread. Any thread.
  void Handle(gateway::HttpRequest request, std::shared_ptr<gateway::HttpResponder> responder);
  // Ends at once.
  void Stop();

  void SetAdapterCounts(std::function<gateway::AdapterCounts()> count) {
    metrics_.SetAdapterCounts(std::move(count));
  }
  // Where tokens go in. Any thread.
  wire::EventSink& sink() { return gateway_.sink(); }
  uint16_t port() const { return server_->port(); }

 private:
  void Drain();
  // The files that are read again when they change.
  std::vector<SettingsReloader::Setting> Settings(const ServeOptions& options);
  uint64_t Random64() { return uint64_t{random_()} << 32 | random_(); }

  const Place place_;
  const Duration drain_delay_;
  const Duration drain_timeout_;
  const ServiceManager service_manager_ = ServiceManager::FromEnvironment();
  std::random_device random_;  // of the operating system; used on the server's thread only
  gateway::Metrics metrics_;
  // Outlives the gateway, whose sessions hold its parts.
  const std::unique_ptr<gateway::HttpServer> server_;
  gateway::Gateway gateway_;
  std::thread thread_;
  const SettingsReloader settings_reloader_;
};

}  // namespace aril

#endif  // ARIL_APPS_FRONT_H_

// The HTTP side of processes without an API (`aril scheduler`, `aril runner`): for probes and for
// Prometheus.

#ifndef ARIL_APPS_STATUS_SERVER_H_
#define ARIL_APPS_STATUS_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "apps/cluster_options.h"
#include "base/status.h"
#include "gateway/http_server.h"

namespace aril {

// What the process says of itself.
struct ProcessStatus {
  Status readiness;     // why it takes no work at present
  std::string metrics;  // in the Prometheus text format
};

// Answers GET /health, /ready and /metrics, on a thread of its own. Whatever it says it asks the
// process' own thread for, so that a probe of one that hangs runs into its time-out.
class StatusServer {
 public:
  // Gets the status, on any thread, and calls back with it, at once or later.
  using Ask = std::function<void(std::function<void(ProcessStatus)>)>;

  // Listens at "HOST:PORT"; until Serve it says that the process is starting. InvalidArgument or
  // Unavailable names the flag and says what is wrong.
  static StatusOr<std::unique_ptr<StatusServer>> Listen(const std::string& address);
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;
  ~StatusServer();

  // From now on `ask` is called for each request, on the server's thread. It must be callable until
  // this object is gone; it need not call back.
  void Serve(Ask ask);
  uint16_t port() const { return server_->port(); }

 private:
  struct Waiting {
    std::string path;
    std::shared_ptr<gateway::HttpResponder> responder;
  };

  explicit StatusServer(std::unique_ptr<gateway::HttpServer> server);
  void Handle(const gateway::HttpRequest& request,
              std::shared_ptr<gateway::HttpResponder> responder);
  void Answer(int64_t id, ProcessStatus status);

  const std::unique_ptr<gateway::HttpServer> server_;
  // On the server's thread.
  Ask ask_;
  std::map<int64_t, Waiting> waiting_;
  int64_t next_id_ = 0;
  std::thread thread_;
};

// nullptr without --status-listen.
StatusOr<std::unique_ptr<StatusServer>> ListenForStatus(const ClusterOptions& options);

}  // namespace aril

#endif  // ARIL_APPS_STATUS_SERVER_H_

#include "apps/status_server.h"

#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "cluster/grpc_links.h"
#include "gateway/api_error.h"
#include "gateway/metrics.h"

namespace aril {
namespace {

constexpr size_t kMaxConnections = 64;

gateway::HttpResponse Ok() {
  return {.headers = {}, .body = Json(Json::Object{{"status", "ok"}}).Dump()};
}

gateway::HttpResponse ResponseTo(const std::string& path, const ProcessStatus& status) {
  if (path == "/metrics") {
    return {.content_type = std::string(gateway::kMetricsContentType),
            .headers = {},
            .body = status.metrics};
  }
  if (path == "/ready" && !status.readiness.ok()) {
    return gateway::ErrorResponse(gateway::Overloaded(Message(status.readiness)));
  }
  return Ok();
}

}  // namespace

StatusOr<std::unique_ptr<StatusServer>> StatusServer::Listen(const std::string& address) {
  ASSIGN_OR_RETURN(const cluster::HostPort parsed,
                   cluster::ParseHostPort("--status-listen", address));
  gateway::HttpServerOptions options;
  // As addresses are written without a port.
  const bool is_bracketed = parsed.host.front() == '[';
  options.host = is_bracketed ? parsed.host.substr(1, parsed.host.size() - 2) : parsed.host;
  options.port = parsed.port;
  options.max_connections = kMaxConnections;
  auto server = gateway::HttpServer::Listen(options);
  if (!server.ok()) return Annotate(server.status(), "--status-listen");
  return std::unique_ptr<StatusServer>(new StatusServer(*std::move(server)));
}

StatusServer::StatusServer(std::unique_ptr<gateway::HttpServer> server)
    : server_(std::move(server)), thread_([this] {
        server_->Run([this](const gateway::HttpRequest& request,
                            std::shared_ptr<gateway::HttpResponder> responder) {
          Handle(request, std::move(responder));
        });
      }) {}

StatusServer::~StatusServer() {
  server_->Stop();
  thread_.join();
}

void StatusServer::Serve(Ask ask) {
  server_->Post([this, ask = std::move(ask)] { ask_ = ask; });
}

void StatusServer::Handle(const gateway::HttpRequest& request,
                          std::shared_ptr<gateway::HttpResponder> responder) {
  const std::string& path = request.path;
  if (path != "/health" && path != "/ready" && path != "/metrics") {
    return responder->Respond(gateway::ErrorResponse(
        {.status = 404,
         .message = "There is no " + path + " here; there are /health, /ready and /metrics.",
         .param = "",
         .code = ""}));
  }
  if (request.method != "GET") {
    return responder->Respond(gateway::ErrorResponse(
        {.status = 405, .message = path + " takes GET.", .param = "", .code = ""}));
  }
  if (!ask_) {
    return responder->Respond(
        path == "/health" ? Ok() : gateway::ErrorResponse(gateway::Overloaded("Still starting.")));
  }
  const int64_t id = next_id_++;
  responder->OnDisconnect([this, id] { waiting_.erase(id); });
  waiting_[id] = {path, std::move(responder)};
  ask_([this, id](ProcessStatus status) {
    server_->Post([this, id, status = std::move(status)] { Answer(id, status); });
  });
}

StatusOr<std::unique_ptr<StatusServer>> ListenForStatus(const ClusterOptions& options) {
  if (options.status_listen.empty()) return std::unique_ptr<StatusServer>();
  return StatusServer::Listen(options.status_listen);
}

void StatusServer::Answer(int64_t id, ProcessStatus status) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  waiting.responder->Respond(ResponseTo(waiting.path, status));
}

}  // namespace aril

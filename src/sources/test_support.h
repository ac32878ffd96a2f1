// For tests: a transport that answers from a script, a monitor that lets no time pass, and a server
// on the loopback interface that sends what it is told to, byte by byte.

#ifndef ARIL_SOURCES_TEST_SUPPORT_H_
#define ARIL_SOURCES_TEST_SUPPORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/transfer_monitor.h"
#include "sources/http_transport.h"

namespace aril {

// Records the waits, moves a clock by them, and is cancelled after `cancel_after` bytes or waits.
class FakeMonitor final : public TransferMonitor {
 public:
  explicit FakeMonitor(ManualClock* clock = nullptr) : clock_(clock) {}
  bool IsCancelled() const override { return cancelled; }
  void OnProgress(int64_t done, int64_t total) override {
    progress.emplace_back(done, total);
    if (done >= cancel_after_bytes) cancelled = true;
  }
  bool Wait(Duration duration) override {
    waits.push_back(duration);
    if (clock_ != nullptr) clock_->Advance(duration);
    return !cancelled;
  }

  bool cancelled = false;
  int64_t cancel_after_bytes = INT64_MAX;
  std::vector<std::pair<int64_t, int64_t>> progress;
  std::vector<Duration> waits;

 private:
  ManualClock* const clock_;
};

// What is answered to one GET: the head, as much of the body as arrives, and how it ends.
struct FakeReply {
  HttpReplyHead head;
  std::string body;
  Status end;  // a broken connection, if not OK
};

// Answers as a function says; remembers what was asked for.
class FakeTransport final : public HttpTransport {
 public:
  using Answer = std::function<FakeReply(const HttpGet&)>;
  FakeTransport(Answer answer, std::vector<HttpGet>* asked)
      : answer_(std::move(answer)), asked_(asked) {}

  Status Get(const HttpGet& get, HttpReplySink& sink, const TransferMonitor& monitor) override {
    asked_->push_back(get);
    const FakeReply reply = answer_(get);
    if (reply.head.status == 0) return reply.end;
    RETURN_IF_ERROR(sink.OnHead(reply.head));
    // In pieces, as it would arrive.
    for (size_t at = 0; at < reply.body.size(); at += kPieceBytes) {
      if (monitor.IsCancelled()) return MakeStatus(StatusCode::kCancelled, "cancelled");
      RETURN_IF_ERROR(sink.OnBody(std::string_view(reply.body).substr(at, kPieceBytes)));
    }
    return reply.end;
  }

 private:
  static constexpr size_t kPieceBytes = 4;
  const Answer answer_;
  std::vector<HttpGet>* const asked_;
};

// Serves 127.0.0.1, one connection after the other: reads the head of each request, and sends what
// `answer` makes of it, then closes.
class ScriptServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  explicit ScriptServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    CHECK_EQ(bind(listener_, generic, size), 0);
    CHECK_EQ(listen(listener_, 16), 0);
    CHECK_EQ(getsockname(listener_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ScriptServer(const ScriptServer&) = delete;
  ScriptServer& operator=(const ScriptServer&) = delete;
  ~ScriptServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

  uint16_t port() const { return port_; }
  std::string url() const { return StrCat("http://127.0.0.1:", port_); }
  int num_connections() const {
    const std::lock_guard lock(mutex_);
    return num_connections_;
  }

 private:
  void Serve() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      {
        const std::lock_guard lock(mutex_);
        ++num_connections_;
      }
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
        if (n <= 0) break;
        request.append(buffer, static_cast<size_t>(n));
      }
      const std::string answer = answer_(request);
      for (size_t at = 0; at < answer.size();) {
        const ssize_t n = send(fd, answer.data() + at, answer.size() - at, MSG_NOSIGNAL);
        if (n <= 0) break;
        at += static_cast<size_t>(n);
      }
      close(fd);
    }
  }

  const Answer answer_;
  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  int num_connections_ = 0;
  std::thread thread_;
};

}  // namespace aril

#endif  // ARIL_SOURCES_TEST_SUPPORT_H_

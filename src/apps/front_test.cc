// What clients and probes see of a process that is told to end.

#include "apps/front.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/file_watch.h"
#include "base/test_dir.h"
#include "gateway/http_client.h"
#include "gateway/test_support.h"
#include "gateway/tls_test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

constexpr char kCompletion[] = R"({"model":"base","prompt":"hi"})";
constexpr char kStream[] = R"({"model":"base","prompt":"hi","stream":true})";

class FrontTest : public ::testing::Test {
 protected:
  // Is ready.
  void Begin(const ServeOptions& options) {
    gateway::HttpServerOptions http = options.http;
    http.port = 0;
    auto server = gateway::HttpServer::Listen(http);
    ASSERT_TRUE(server.ok()) << server.status();
    front_ =
        std::make_unique<Front>(*std::move(server), options, clock_, Front::Place::kOneProcess);
    is_https_ = !http.ssl_certfile.empty();
    port_.set_sink(&front_->sink());
    front_->Begin(gateway::MakeServedModel(), &port_, nullptr, nullptr);
    while (StatusOf("/ready") != 200) {
    }
  }
  // Serves as well.
  void Serve(const ServeOptions& options) {
    Begin(options);
    thread_ = std::thread([this] { front_->ServeUntilSignal(); });
  }

  // On a connection of its own.
  StatusOr<gateway::HttpResponse> Send(const std::string& method, const std::string& path,
                                       const std::string& body = "",
                                       gateway::HttpHeaders headers = {}) {
    gateway::HttpClient client(
        {.host = "127.0.0.1", .port = front_->port(), .path = "", .is_https = is_https_},
        std::chrono::seconds(60));
    return client.Send(
        {.method = method, .path = path, .headers = std::move(headers), .body = body});
  }
  int StatusOf(const std::string& path) {
    const auto response = Send("GET", path);
    return response.ok() ? response->status : 0;
  }

  RealClock clock_;
  gateway::FakePort port_;
  std::unique_ptr<Front> front_;
  bool is_https_ = false;
  std::thread thread_;
};

TEST_F(FrontTest, IsNotReadyButServesUntilItsDelayIsOver) {
  Serve({.drain_delay = std::chrono::hours(1)});
  std::raise(SIGTERM);
  while (StatusOf("/ready") == 200) {
  }
  EXPECT_EQ(StatusOf("/ready"), 503);
  EXPECT_EQ(StatusOf("/health"), 200) << "it is not to be killed";
  port_.AnswerWith("late");
  const auto answer = Send("POST", "/v1/completions", kCompletion);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200) << answer->body;
  std::raise(SIGTERM);
  thread_.join();  // an hour early
}

TEST_F(FrontTest, MayBeToldToEndAsSoonAsItIsReady) {
  Begin({.drain_timeout = std::chrono::hours(1)});
  std::raise(SIGTERM);  // before anybody waits for it
  front_->ServeUntilSignal();
}

TEST_F(FrontTest, FinishesItsStreamsWhenItAcceptsNoMore) {
  Serve({.drain_delay = std::chrono::milliseconds(1), .drain_timeout = std::chrono::hours(1)});
  gateway::RawClient client(front_->port());
  ASSERT_TRUE(client.Send(gateway::PostText("/v1/completions", kStream)));
  const auto requests = port_.WaitForRequests(1);
  std::raise(SIGTERM);
  while (StatusOf("/version") == 200) {
  }
  port_.Emit(requests[0].sequence, "done", wire::FinishReason::kLength);
  EXPECT_THAT(client.ReadUntil("data: [DONE]"), HasSubstr(R"("finish_reason":"length")"));
  client.Close();
  thread_.join();
}

// Who rotates keys, limits or certificates need not end it.
TEST_F(FrontTest, ReadsItsFilesAgainWhenTheyChange) {
  const TestDir dir;
  ServeOptions options;
  options.api_key_file = dir.Write("keys", "old acme\n");
  options.tenant_limits_file = dir.Write("limits", "* requests-per-minute=1000\n");
  options.api_keys = {{.key = "old", .tenant = "acme"}};
  options.watches.api_keys = FileWatch({options.api_key_file});
  options.watches.tenant_limits = FileWatch({options.tenant_limits_file});
  Serve(options);
  port_.AnswerWith("x");
  const auto ask = [&](const std::string& key) {
    auto response =
        Send("POST", "/v1/completions", kCompletion, {{"Authorization", "Bearer " + key}});
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *std::move(response) : gateway::HttpResponse{};
  };
  const auto limit = [&](const std::string& key) {
    return std::string(gateway::FindHeader(ask(key).headers, "x-ratelimit-limit-requests"));
  };
  EXPECT_EQ(ask("old").status, 200);
  dir.Write("keys", "new acme\n");
  while (ask("new").status != 200) {
  }
  EXPECT_EQ(ask("old").status, 401);
  // What cannot be read changes nothing, and is said.
  dir.Write("keys", "new acme and more\n");
  const auto metrics = [&] {
    const auto response = Send("GET", "/metrics");
    return response.ok() ? response->body : "";
  };
  constexpr const char* kFailed =
      "aril_settings_reloads_total{flag=\"--api-key-file\",outcome=\"error\"} 1";
  while (metrics().find(kFailed) == std::string::npos) {
  }
  EXPECT_EQ(ask("new").status, 200);
  dir.Write("limits", "* requests-per-minute=100000\n");
  while (limit("new") != "100000") {
  }
  std::raise(SIGTERM);
  thread_.join();
}

// Renewed as by certbot: one file after the other.
TEST_F(FrontTest, TakesANewCertificate) {
  const TestDir dir;
  const auto now = gateway::MakeCertificate(dir / "now");
  const auto next = gateway::MakeCertificate(dir / "next");
  ServeOptions options;
  options.http.ssl_certfile = now.certfile;
  options.http.ssl_keyfile = now.keyfile;
  options.watches.certificate = FileWatch({now.certfile, now.keyfile});
  setenv("SSL_CERT_FILE", now.certfile.c_str(), 1);  // what clients trust, read by each
  Serve(options);
  const auto replace = [](const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  };
  replace(next.certfile, now.certfile);
  replace(next.keyfile, now.keyfile);
  setenv("SSL_CERT_FILE", next.certfile.c_str(), 1);
  while (StatusOf("/ready") != 200) {
  }
  unsetenv("SSL_CERT_FILE");
  std::raise(SIGTERM);
  thread_.join();
}

}  // namespace
}  // namespace aril

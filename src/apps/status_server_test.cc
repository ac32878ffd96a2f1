// A process without an API, asked over HTTP.

#include "apps/status_server.h"

#include <chrono>
#include <memory>
#include <string>

#include "base/strings.h"
#include "gateway/http_client.h"
#include "gateway/metrics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using gateway::HttpResponse;
using ::testing::HasSubstr;

class StatusServerTest : public ::testing::Test {
 protected:
  StatusServerTest() {
    auto server = StatusServer::Listen("127.0.0.1:0");
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<gateway::HttpClient>(
        *gateway::ParseHttpUrl(StrCat("http://127.0.0.1:", server_->port())),
        std::chrono::minutes(1));
  }

  HttpResponse Send(const std::string& path, const std::string& method = "GET") {
    auto response =
        client_->Send({.method = method, .path = path, .query = "", .headers = {}, .body = ""});
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *std::move(response) : HttpResponse();
  }

  std::unique_ptr<StatusServer> server_;
  std::unique_ptr<gateway::HttpClient> client_;
};

TEST_F(StatusServerTest, IsAliveButNotReadyWhileItStarts) {
  EXPECT_EQ(Send("/health").status, 200);
  EXPECT_EQ(Send("/ready").status, 503);
  EXPECT_THAT(Send("/ready").body, HasSubstr("Still starting"));
  EXPECT_EQ(Send("/metrics").status, 503);
}

TEST_F(StatusServerTest, SaysWhatTheProcessSays) {
  ProcessStatus status = {Unavailable("The runner has no scheduler."), "aril_steps_total 7\n"};
  server_->Serve([&](const std::function<void(ProcessStatus)>& tell) { tell(status); });
  EXPECT_EQ(Send("/health").status, 200) << "it is well, and waits";
  EXPECT_EQ(Send("/ready").status, 503);
  EXPECT_THAT(Send("/ready").body, HasSubstr("no scheduler"));
  const HttpResponse metrics = Send("/metrics");
  EXPECT_EQ(metrics.body, "aril_steps_total 7\n");
  EXPECT_EQ(metrics.content_type, gateway::kMetricsContentType);
  status.readiness = OkStatus();
  EXPECT_EQ(Send("/ready").status, 200);
}

TEST_F(StatusServerTest, HasNothingElse) {
  EXPECT_EQ(Send("/v1/models").status, 404);
  EXPECT_THAT(Send("/").body, HasSubstr("there are /health, /ready and /metrics"));
  EXPECT_EQ(Send("/ready", "POST").status, 405);
}

// The process hangs: whoever asks waits, and may go away.
TEST_F(StatusServerTest, MayEndWithoutAnAnswer) {
  server_->Serve([](const std::function<void(ProcessStatus)>&) {});
  gateway::HttpClient impatient(
      *gateway::ParseHttpUrl(StrCat("http://127.0.0.1:", server_->port())),
      std::chrono::milliseconds(50));
  EXPECT_FALSE(
      impatient.Send({.method = "GET", .path = "/health", .query = "", .headers = {}, .body = ""})
          .ok());
}

TEST(StatusServer, NamesItsFlag) {
  EXPECT_THAT(Message(StatusServer::Listen("nonsense").status()), HasSubstr("--status-listen"));
  EXPECT_THAT(Message(StatusServer::Listen("192.0.2.1:0").status()), HasSubstr("--status-listen"));
}

}  // namespace
}  // namespace aril

// What clients and probes see of a process that is told to end.

#include "apps/front.h"

#include <csignal>
#include <memory>
#include <string>
#include <thread>

#include "gateway/http_client.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

constexpr char kCompletion[] = R"({"model":"base","prompt":"hi"})";
constexpr char kStream[] = R"({"model":"base","prompt":"hi","stream":true})";

class FrontTest : public ::testing::Test {
 protected:
  // Serves, and is ready.
  void Serve(const ServeOptions& options) {
    auto server = gateway::HttpServer::Listen({.port = 0});
    ASSERT_TRUE(server.ok()) << server.status();
    front_ = std::make_unique<Front>(*std::move(server), options, clock_);
    port_.set_sink(&front_->sink());
    thread_ = std::thread(
        [this] { front_->ServeUntilSignal(gateway::MakeServedModel(), &port_, nullptr, nullptr); });
    while (StatusOf("/ready") != 200) {
    }
  }

  // On a connection of its own.
  StatusOr<gateway::HttpResponse> Send(const std::string& method, const std::string& path,
                                       const std::string& body = "") {
    gateway::HttpClient client({.host = "127.0.0.1", .port = front_->port(), .path = ""},
                               std::chrono::seconds(60));
    return client.Send({.method = method, .path = path, .headers = {}, .body = body});
  }
  int StatusOf(const std::string& path) {
    const auto response = Send("GET", path);
    return response.ok() ? response->status : 0;
  }

  RealClock clock_;
  gateway::FakePort port_;
  std::unique_ptr<Front> front_;
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

}  // namespace
}  // namespace aril

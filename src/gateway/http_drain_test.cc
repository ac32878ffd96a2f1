// How a server ends: by a drain, and by signals.

#include <csignal>
#include <future>
#include <memory>
#include <string>

#include "gateway/http_server.h"
#include "gateway/http_test_server.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Responder = std::shared_ptr<HttpResponder>;

TEST(HttpDrain, DrainsByFinishingWhatIsInWork) {
  std::promise<Responder> begun;
  RunningServer server({.linger_timeout = std::chrono::milliseconds(1)},
                       [&](HttpRequest, Responder responder) { begun.set_value(responder); });
  RawClient idle(server->port());
  RawClient busy(server->port());
  ASSERT_TRUE(busy.Send(kGet));
  const Responder responder = begun.get_future().get();
  server->Drain(std::chrono::seconds(60), [] { ADD_FAILURE() << "timed out"; });
  EXPECT_EQ(idle.ReadAll(), "");
  server->Post([&] { responder->Respond({.headers = {}, .body = "done"}); });
  const std::string answer = busy.ReadAll();
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, EndsWith("done"));
  server.Join();
}

TEST(HttpDrain, EndsADrainThatTakesTooLong) {
  std::promise<Responder> begun;
  RunningServer server({.linger_timeout = std::chrono::milliseconds(1)},
                       [&](HttpRequest, Responder responder) { begun.set_value(responder); });
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(kGet));
  const Responder responder = begun.get_future().get();
  server->Drain(std::chrono::milliseconds(1),
                [&] { responder->Respond({.status = 503, .headers = {}, .body = "too late"}); });
  EXPECT_THAT(client.ReadAll(), EndsWith("too late"));
  server.Join();
}

TEST(HttpDrain, ASecondSignalEndsItAtOnce) {
  std::promise<void> in_work;
  RunningServer server({}, [&](HttpRequest, Responder) { in_work.set_value(); });
  std::promise<void> ready;
  std::promise<void> first;
  server->Post([&] {
    server->OnTerminationSignal([&] {
      server->Drain(std::chrono::hours(1), [] {});
      first.set_value();
    });
    ready.set_value();
  });
  ready.get_future().get();
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(kGet));
  in_work.get_future().get();
  std::raise(SIGTERM);
  first.get_future().get();
  std::raise(SIGINT);
  server.Join();  // with a request in work, and an hour left for it
}

// As when a terminal is closed: its shell and the kernel both say so.
TEST(HttpDrain, DrainsAtSighupHoweverOftenItComes) {
  RunningServer server({}, Echo);
  std::promise<void> ready;
  std::promise<void> first;
  server->Post([&] {
    server->OnTerminationSignal([&] { first.set_value(); });
    ready.set_value();
  });
  ready.get_future().get();
  std::raise(SIGHUP);
  first.get_future().get();
  std::raise(SIGHUP);
  for (int i = 0; i < 2; ++i) {  // when the second is answered, that signal has been looked at
    RawClient client(server->port());
    ASSERT_TRUE(client.Send(kGet));
    EXPECT_THAT(client.ReadUntil("GET "), StartsWith("HTTP/1.1 200"));
  }
  std::raise(SIGTERM);
  server.Join();
}

}  // namespace
}  // namespace aril::gateway

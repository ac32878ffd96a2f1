#include "gateway/http_server.h"

#include <future>
#include <stdexcept>

#include "base/strings.h"
#include "gateway/http_client.h"
#include "gateway/http_test_server.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Responder = std::shared_ptr<HttpResponder>;

TEST(HttpServer, AnswersManyRequestsOnOneConnection) {
  RunningServer server({}, Echo);
  HttpClient client({.host = "127.0.0.1", .port = server->port(), .path = ""},
                    std::chrono::seconds(10));
  for (const size_t body_bytes : {size_t{0}, size_t{1}, size_t{100000}}) {
    const std::string body(body_bytes, 'x');
    const auto response =
        client.Send({.method = "POST", .path = "/a/b?query=1", .headers = {}, .body = body});
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->content_type, "text/plain");
    EXPECT_EQ(FindHeader(response->headers, "x-path"), "/a/b");
    EXPECT_EQ(response->body, "POST " + body);
  }
}

TEST(HttpServer, AnswersPipelinedRequestsInTheirOrder) {
  RunningServer server({}, Echo);
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(PostText("/", "one") + PostText("/", "two") +
                          PostText("/", "three", "Connection: close\r\n")));
  const std::string all = client.ReadAll();
  EXPECT_LT(all.find("POST one"), all.find("POST two"));
  EXPECT_THAT(all, EndsWith("POST three"));
}

TEST(HttpServer, TakesChunkedBodiesAndExpectations) {
  RunningServer server({}, Echo);
  RawClient client(server->port());
  ASSERT_TRUE(
      client.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"));
  EXPECT_THAT(client.ReadUntil("POST abcde"), StartsWith("HTTP/1.1 200 OK\r\n"));
  ASSERT_TRUE(client.Send(
      "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.Send("hi"));
  EXPECT_THAT(client.ReadUntil("POST hi"), HasSubstr("200 OK"));
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  RunningServer server({}, Echo);
  RawClient client(server->port());
  ASSERT_TRUE(client.Send("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  const std::string answer = client.ReadAll();
  EXPECT_THAT(answer, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

TEST(HttpServer, ClosesForHttp10UnlessAskedNotTo) {
  RunningServer server({}, Echo);
  RawClient client(server->port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(client.ReadAll(), HasSubstr("Connection: close\r\n"));
}

TEST(HttpServer, StreamsInChunksWithHeartbeats) {
  std::promise<Responder> begun;
  RunningServer server(
      {.heartbeat_interval = std::chrono::milliseconds(1)}, [&](HttpRequest, Responder responder) {
        responder->StartStream({.content_type = "text/event-stream", .headers = {}, .body = ""},
                               ":\n\n");
        begun.set_value(responder);
      });
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(kGet));
  const Responder responder = begun.get_future().get();
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_EQ(client.ReadUntil("3\r\n:\n\n\r\n"), "3\r\n:\n\n\r\n");
  server->Post([&] {
    responder->Write("hello");
    responder->Finish();
  });
  EXPECT_THAT(client.ReadUntil("0\r\n\r\n"), EndsWith("5\r\nhello\r\n0\r\n\r\n"));
}

TEST(HttpServer, StreamsToHttp10UntilTheEndOfTheConnection) {
  RunningServer server({}, [](HttpRequest, Responder responder) {
    responder->StartStream({.headers = {}, .body = ""}, "");
    responder->Write("hello");
    responder->Finish();
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(client.ReadAll(), EndsWith("\r\n\r\nhello"));
}

TEST(HttpServer, TellsWhenTheClientGoesAway) {
  for (const bool stream : {false, true}) {
    std::promise<void> waiting;
    std::promise<void> gone;
    Responder kept;
    RunningServer server({}, [&](HttpRequest, Responder responder) {
      kept = responder;
      responder->OnDisconnect([&] { gone.set_value(); });
      if (stream) responder->StartStream({.headers = {}, .body = ""}, "");
      waiting.set_value();
    });
    RawClient client(server->port());
    ASSERT_TRUE(client.Send(kGet));
    waiting.get_future().get();
    client.Close();
    gone.get_future().get();
    // What a handler that has not noticed yet says goes nowhere.
    std::promise<void> done;
    server->Post([&] {
      if (stream) {
        kept->Write("x");
        kept->Finish();
      } else {
        kept->Respond({.headers = {}, .body = "x"});
      }
      kept = nullptr;
      done.set_value();
    });
    done.get_future().get();
  }
}

TEST(HttpServer, DisconnectsAClientThatDoesNotRead) {
  std::promise<Responder> begun;
  std::promise<void> gone;
  RunningServer server({.max_stream_buffer_bytes = 100000}, [&](HttpRequest, Responder responder) {
    responder->OnDisconnect([&] { gone.set_value(); });
    responder->StartStream({.headers = {}, .body = ""}, "");
    begun.set_value(responder);
  });
  RawClient client(server->port(), /*receive_buffer_bytes=*/4096);
  ASSERT_TRUE(client.Send(kGet));
  const Responder responder = begun.get_future().get();
  // More than the kernel's buffers take; each piece on its own would be fine.
  const auto piece = std::make_shared<const std::string>(50000, 'x');
  auto disconnected = gone.get_future();
  for (int i = 0; i < 2000; ++i) server->Post([responder, piece] { responder->Write(*piece); });
  disconnected.get();
}

TEST(HttpServer, WhoKeepsUpGetsMoreAtOnceThanMayWait) {
  RunningServer server({.max_stream_buffer_bytes = 1000}, [](HttpRequest, Responder responder) {
    responder->StartStream({.headers = {}, .body = ""}, "");
    responder->Write(std::string(5000, 'x'));
    responder->Write(std::string(5000, 'y'));
    responder->Finish();
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(kGet));
  EXPECT_THAT(client.ReadUntil("0\r\n\r\n"),
              AllOf(HasSubstr(std::string(5000, 'x')), HasSubstr(std::string(5000, 'y'))));
}

// Takes what comes, the first time not before the test says so.
class HeldSink final : public BodySink {
 public:
  HeldSink(HttpServer& server, std::future<void> released, std::function<void()> on_begin)
      : server_(server), released_(std::move(released)), on_begin_(std::move(on_begin)) {}

  void Append(std::string bytes, std::function<void()> done) override {
    size_ += bytes.size();
    if (!std::exchange(is_begun_, true)) {
      waiting_ = std::async(std::launch::async, [this, done]() mutable {
        on_begin_();
        released_.get();
        server_.Post(std::exchange(done, nullptr));  // it must not outlive the server
      });
      return;
    }
    server_.Post(std::move(done));
  }
  bool has_failed() const override { return false; }
  void Abandon(std::shared_ptr<BodySink>) override {}

  size_t size() const { return size_; }

 private:
  HttpServer& server_;
  std::future<void> released_;
  const std::function<void()> on_begin_;
  std::future<void> waiting_;
  size_t size_ = 0;
  bool is_begun_ = false;
};

TEST(HttpServer, WhatArrivesWhileASinkIsBusyIsNotWaitedForAgain) {
  std::promise<void> release;
  std::promise<Responder> first;
  std::shared_ptr<HeldSink> sink;  // the server's thread's, until it is begun
  std::promise<void> begun;
  RunningServer server(
      {.body_timeout = std::chrono::hours(1)},
      [&](HttpRequest request, Responder responder) {
        if (request.path == "/first") return first.set_value(responder);
        const auto size = request.sink != nullptr ? sink->size() : 0;
        responder->Respond({.headers = {}, .body = StrCat("took ", size, "!")});
      },
      [&](const HttpRequest& head) -> BodyPlan {
        if (head.path != "/sink") return {};
        sink =
            std::make_shared<HeldSink>(*server, release.get_future(), [&] { begun.set_value(); });
        return {.sink = sink, .max_bytes = 1000, .timeout = std::chrono::hours(1)};
      });
  RawClient client(server->port());
  // The upload begins while the first request is in work, so that a read is in flight when the sink
  // gets its first bytes.
  ASSERT_TRUE(
      client.Send("GET /first HTTP/1.1\r\nHost: x\r\n\r\n"
                  "PUT /sink HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc"));
  const Responder responder = first.get_future().get();
  const auto ask_on_another = [&] {  // what was sent before has been read when this returns
    RawClient other(server->port());
    ASSERT_TRUE(other.Send(kGet));
    EXPECT_THAT(other.ReadUntil("!"), EndsWith("took 0!"));
  };
  ask_on_another();
  std::promise<void> answered;
  server->Post([&] {
    responder->Respond({.headers = {}, .body = "one!"});
    answered.set_value();
  });
  answered.get_future().get();
  EXPECT_THAT(client.ReadUntil("one!"), EndsWith("one!"));
  begun.get_future().get();
  ASSERT_TRUE(client.Send("def"));
  ask_on_another();
  ask_on_another();
  release.set_value();
  EXPECT_THAT(client.ReadUntil("!"), EndsWith("took 6!"));
}

TEST(HttpServer, EndsAWriteThatTheClientDoesNotTake) {
  std::promise<void> gone;
  // More than the kernel's buffers take.
  constexpr size_t kBytes = 64 << 20;
  RunningServer server(
      {.max_stream_buffer_bytes = 2 * kBytes, .write_timeout = std::chrono::milliseconds(20)},
      [&](HttpRequest, Responder responder) {
        responder->OnDisconnect([&] { gone.set_value(); });
        responder->StartStream({.headers = {}, .body = ""}, "");
        responder->Write(std::string(kBytes, 'x'));
      });
  RawClient client(server->port(), /*receive_buffer_bytes=*/4096);
  ASSERT_TRUE(client.Send(kGet));
  gone.get_future().get();
}

TEST(HttpServer, RefusesWhatIsTooLarge) {
  RunningServer server({.request = {.max_header_bytes = 1000, .max_body_bytes = 1000}}, Echo);
  RawClient declared(server->port());
  ASSERT_TRUE(declared.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n"));
  const std::string answer = declared.ReadUntil("null}}");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 413 Content Too Large\r\n"));
  EXPECT_THAT(answer, HasSubstr("larger than the 1000 bytes allowed"));

  RawClient chunked(server->port());
  ASSERT_TRUE(
      chunked.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                   std::string(1001, 'x') + "\r\n0\r\n\r\n"));
  EXPECT_THAT(chunked.ReadUntil("null}}"), StartsWith("HTTP/1.1 413 "));

  RawClient header(server->port());
  header.Send("GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(5000, 'x') + "\r\n\r\n");
  EXPECT_THAT(header.ReadUntil("null}}"),
              StartsWith("HTTP/1.1 431 Request Header Fields Too Large\r\n"));
}

// Beast throws at a trailer of 64 KiB, and by itself bounds neither trailers nor chunk extensions.
TEST(HttpServer, BoundsTrailersAndChunkExtensions) {
  RunningServer server({}, Echo);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string many(100'000, 'y');
  for (const std::string& end : {"0\r\nX: " + many + "\r\n\r\n", "0\r\n" + many + ": x\r\n\r\n",
                                 "1;" + many + "\r\na\r\n0\r\n\r\n"}) {
    RawClient client(server->port());
    ASSERT_TRUE(client.Send(head + end));
    EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 431 ")) << end.substr(0, 6);
  }
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(head + "1\r\na\r\n0\r\nDigest: z\r\nX: y\r\n\r\n" + kGet));
  EXPECT_THAT(client.ReadUntil("GET "), AllOf(HasSubstr("POST a"), HasSubstr("GET ")));
}

// Out of memory, above all.
TEST(HttpServer, OutlivesAnException) {
  RunningServer server({}, Echo);
  server->Post([] { throw std::runtime_error("expected by the test"); });
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(kGet));
  EXPECT_THAT(client.ReadUntil("GET "), StartsWith("HTTP/1.1 200 OK"));
}

TEST(HttpServer, AnswersALargeRefusedBodyBeforeItIsSent) {
  RunningServer server({.request = {.max_body_bytes = 1000}}, Echo);
  HttpClient client({.host = "127.0.0.1", .port = server->port(), .path = ""},
                    std::chrono::seconds(10));
  const auto response = client.Send(
      {.method = "POST", .path = "/", .headers = {}, .body = std::string(8 << 20, 'x')});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->status, 413);
}

TEST(HttpServer, LeavesNothingOfAHalfSentRequest) {
  RunningServer server({}, Echo);
  for (const char* text : {"", "GE", "GET / HTTP/1.1\r\nHo",
                           "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"}) {
    RawClient client(server->port());
    ASSERT_TRUE(client.Send(text));
    client.Close();
  }
  server->Drain(std::chrono::seconds(10), [] {});
  server.Join();  // with no connection left
}

TEST(HttpServer, TimesOutSlowHeadsBodiesAndIdleConnections) {
  const Duration kSoon = std::chrono::milliseconds(20);
  RunningServer server({.idle_timeout = kSoon, .header_timeout = kSoon, .body_timeout = kSoon},
                       Echo);
  RawClient head(server->port());
  ASSERT_TRUE(head.Send("GET / HT"));
  EXPECT_THAT(head.ReadAll(), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  RawClient body(server->port());
  ASSERT_TRUE(body.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"));
  EXPECT_THAT(body.ReadAll(), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  RawClient idle(server->port());
  EXPECT_EQ(idle.ReadAll(), "");
}

TEST(HttpServer, RefusesConnectionsAboveTheLimit) {
  RunningServer server({.max_connections = 1}, Echo);
  RawClient first(server->port());
  ASSERT_TRUE(first.Send(kGet));
  EXPECT_THAT(first.ReadUntil("GET "), StartsWith("HTTP/1.1 200"));
  RawClient second(server->port());
  const std::string answer = second.ReadAll();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 1\r\n"));
}

TEST(HttpServer, ListensAtAName) {
  RunningServer server({.host = "localhost"}, Echo);
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(kGet));
  EXPECT_THAT(client.ReadUntil("GET "), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, SaysWhenItCannotListen) {
  // No name has so long a part, so that nobody needs to be asked.
  const std::string no_name(64, 'x');
  const auto bad_host = HttpServer::Listen({.host = no_name});
  EXPECT_EQ(bad_host.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(bad_host.status()), HasSubstr("--host " + no_name + " is not an address"));
  const auto elsewhere = HttpServer::Listen({.host = "192.0.2.1"});
  EXPECT_EQ(elsewhere.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(elsewhere.status()), HasSubstr("cannot listen on 192.0.2.1:8000"));
  const auto first = HttpServer::Listen({.port = 0});
  ASSERT_TRUE(first.ok());
  const auto second = HttpServer::Listen({.port = (*first)->port()});
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(second.status()), HasSubstr("choose another --host or --port"));
}

TEST(HttpClient, ReadsUrls) {
  const auto text = [](const std::string& url) {
    const auto parsed = ParseHttpUrl(url);
    if (!parsed.ok()) return std::string("bad");
    return StrCat(parsed->is_https ? "s|" : "", parsed->host, "|", parsed->port, "|", parsed->path);
  };
  EXPECT_EQ(text("http://localhost"), "localhost|80|");
  EXPECT_EQ(text("http://localhost:8000/"), "localhost|8000|");
  EXPECT_EQ(text("http://h:1/a/b/"), "h|1|/a/b");
  EXPECT_EQ(text("http://[::1]:8000"), "::1|8000|");
  EXPECT_EQ(text("http://[::1]"), "::1|80|");
  EXPECT_EQ(text("https://h/a"), "s|h|443|/a");
  EXPECT_EQ(text("https://h:8443"), "s|h|8443|");
  for (const char* bad : {"", "localhost:8000", "ftp://x", "https://", "http://", "http://:80",
                          "http://h:0", "http://h:70000", "http://h:x"}) {
    EXPECT_EQ(text(bad), "bad") << bad;
  }
}

TEST(HttpClient, ReadsABoundedAnswer) {
  RunningServer server({}, [](const HttpRequest& request, const Responder& responder) {
    if (request.path == "/whole") return responder->Respond({.body = std::string(1001, 'x')});
    responder->StartStream({}, "");
    for (int i = 0; i < 11; ++i) responder->Write(std::string(100, 'x'));
    responder->Finish();
  });
  const auto ask = [&](const std::string& path, uint64_t max_body_bytes) {
    HttpClient client({.host = "127.0.0.1", .port = server->port(), .path = ""},
                      std::chrono::seconds(60), max_body_bytes);
    return client.Send({.method = "GET", .path = path});
  };
  EXPECT_EQ(ask("/whole", 1001)->body.size(), 1001u);
  EXPECT_EQ(ask("/stream", 1100)->body.size(), 1100u);
  for (const char* path : {"/whole", "/stream"}) {
    const auto response = ask(path, 1000);
    EXPECT_EQ(response.status().code(), StatusCode::kUnavailable) << path;
    EXPECT_NE(Message(response.status()).find("longer than the 1000 bytes"), std::string::npos)
        << response.status();
  }
}

TEST(HttpClient, SaysWhenNobodyAnswers) {
  const auto server = HttpServer::Listen({.port = 0});
  ASSERT_TRUE(server.ok());  // listens, but never answers
  HttpClient silent({.host = "127.0.0.1", .port = (*server)->port(), .path = ""},
                    std::chrono::milliseconds(20));
  const auto response = silent.Send({.method = "GET", .path = "/", .headers = {}, .body = ""});
  EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace aril::gateway

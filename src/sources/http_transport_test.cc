// On real sockets of the loopback interface.

#include "sources/http_transport.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sources/test_support.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TextSink final : public HttpReplySink {
 public:
  Status OnHead(const HttpReplyHead& head) override {
    heads.push_back(head);
    return head_status;
  }
  Status OnBody(std::string_view bytes) override {
    text += bytes;
    return body_status;
  }
  std::vector<HttpReplyHead> heads;
  std::string text;
  Status head_status;
  Status body_status;
};

class HttpTransportTest : public ::testing::Test {
 protected:
  HttpTransportTest() {
    policy_.allow_private = true;
    policy_.connect_timeout = std::chrono::seconds(60);
  }
  Status Get(const std::string& url, const AwsCredentials* sign = nullptr,
             std::vector<std::string> headers = {}) {
    return MakeHttpTransport(policy_)->Get({.url = url,
                                            .headers = std::move(headers),
                                            .sign = sign,
                                            .timeout = std::chrono::seconds(60)},
                                           sink_, monitor_);
  }
  Status GetAnswer(const std::string& answer) {
    sink_ = {};
    const ScriptServer server([&](const std::string&) { return answer; });
    return Get(server.url() + "/x");
  }

  SourcePolicy policy_;
  FakeMonitor monitor_;
  TextSink sink_;
};

TEST_F(HttpTransportTest, TakesAnAnswerApart) {
  const Status status = GetAnswer(
      "HTTP/1.1 103 Early Hints\r\nETag: \"no\"\r\n\r\n"
      "HTTP/1.1 206 Partial\r\nContent-Length: 4\r\nETAG:  \"v1\" \r\nContent-Range: bytes "
      "1-4/9\r\n"
      "Location: /y\r\nRetry-After: 3\r\nContent-Encoding: GZip\r\n\r\nbody");
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(sink_.heads.size(), 1u);
  const HttpReplyHead& head = sink_.heads[0];
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.content_length, 4);
  EXPECT_EQ(head.etag, "\"v1\"");
  EXPECT_EQ(head.content_range, "bytes 1-4/9");
  EXPECT_EQ(head.location, "/y");
  EXPECT_EQ(head.retry_after, "3");
  EXPECT_EQ(head.content_encoding, "gzip");
  EXPECT_EQ(sink_.text, "body");
}

TEST_F(HttpTransportTest, AsksForExactlyWhatItIsTold) {
  std::string asked;
  const ScriptServer server([&](const std::string& request) {
    asked = request;
    return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  });
  ASSERT_TRUE(Get(server.url() + "/a/./../b", nullptr, {"Range: bytes=1-"}).ok());
  EXPECT_THAT(asked, HasSubstr("GET /a/./../b HTTP/1.1\r\n")) << "nothing is normalized";
  EXPECT_THAT(asked, HasSubstr("\r\nRange: bytes=1-\r\n"));
  EXPECT_THAT(asked, Not(HasSubstr("Authorization")));
  EXPECT_THAT(asked, Not(HasSubstr("Accept-Encoding")));
}

TEST_F(HttpTransportTest, SignsForS3) {
  std::string asked;
  const ScriptServer server([&](const std::string& request) {
    asked = request;
    return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  });
  const AwsCredentials credentials = {.access_key_id = "AKID",
                                      .secret_access_key = "se:cret",
                                      .session_token = "token",
                                      .region = "eu-west-1"};
  ASSERT_TRUE(Get(server.url() + "/bucket/x", &credentials).ok());
  EXPECT_THAT(asked, HasSubstr("Authorization: AWS4-HMAC-SHA256 Credential=AKID/"));
  EXPECT_THAT(asked, HasSubstr("/eu-west-1/s3/aws4_request"));
  EXPECT_THAT(asked, HasSubstr("x-amz-security-token"));
  EXPECT_THAT(asked,
              HasSubstr("x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b93"
                        "4ca495991b7852b855\r\n"));
  EXPECT_THAT(asked, HasSubstr("SignedHeaders=host;x-amz-content-sha256;"));
  EXPECT_THAT(asked, Not(HasSubstr("se:cret")));
}

TEST_F(HttpTransportTest, WhatIsCutShortIsNotComplete) {
  for (const char* answer :
       {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nbody",
        "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nbody"}) {
    const Status status = GetAnswer(answer);
    EXPECT_FALSE(status.ok()) << answer;
  }
  EXPECT_EQ(GetAnswer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody").code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(sink_.text, "body") << "what is there can be kept";
}

TEST_F(HttpTransportTest, AHeadIsBounded) {
  const Status status = GetAnswer("HTTP/1.1 200 OK\r\nX: " + std::string(80 << 10, 'a') +
                                  "\r\nContent-Length: 0\r\n\r\n");
  EXPECT_FALSE(status.ok());
  std::string many = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 5000; ++i) many += "X-Field: aaaaaaaaaaaa\r\n";
  EXPECT_THAT(Message(GetAnswer(many + "Content-Length: 0\r\n\r\n")),
              HasSubstr("head of the answer"));
}

TEST_F(HttpTransportTest, TheSinkEndsIt) {
  const ScriptServer server(
      [](const std::string&) { return "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nbody"; });
  sink_.head_status = NotFound("by the head");
  EXPECT_EQ(Message(Get(server.url())), "by the head");
  EXPECT_EQ(sink_.text, "");
  sink_.head_status = OkStatus();
  sink_.body_status = ResourceExhausted("by the body");
  EXPECT_EQ(Message(Get(server.url())), "by the body");
  monitor_.cancelled = true;
  EXPECT_EQ(Get(server.url()).code(), StatusCode::kCancelled);
}

TEST_F(HttpTransportTest, RedirectsAreTheCallers) {
  EXPECT_TRUE(GetAnswer("HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n").ok());
  ASSERT_EQ(sink_.heads.size(), 1u);
  EXPECT_EQ(sink_.heads[0].location, "/y");
}

TEST_F(HttpTransportTest, NoConnectionToAPrivateAddress) {
  const ScriptServer server(
      [](const std::string&) { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"; });
  policy_.allow_private = false;
  for (const std::string& host :
       {std::string("127.0.0.1"), std::string("localhost"), std::string("127.255.0.9"),
        std::string("[::1]"), std::string("[::ffff:127.0.0.1]"), std::string("0.0.0.0"),
        std::string("127.1"), std::string("2130706433"), std::string("0x7f000001")}) {
    const Status status = Get(StrCat("http://", host, ":", server.port(), "/"));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << host << status;
    EXPECT_THAT(Message(status), HasSubstr("--allow-private-sources")) << host;
  }
  EXPECT_EQ(server.num_connections(), 0);
  policy_.allow_private = true;
  for (const char* host : {"0.0.0.0", "169.254.169.254", "[fe80::1]", "[::ffff:127.0.0.1]"}) {
    const Status status = Get(StrCat("http://", host, ":", server.port(), "/"));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << host << status;
  }
  EXPECT_EQ(server.num_connections(), 0);
  EXPECT_TRUE(Get(server.url()).ok());
}

TEST_F(HttpTransportTest, ProxiesOfTheEnvironmentAreNotAsked) {
  const ScriptServer proxy(
      [](const std::string&) { return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy"; });
  setenv("http_proxy", proxy.url().c_str(), 1);
  setenv("ALL_PROXY", proxy.url().c_str(), 1);
  EXPECT_TRUE(GetAnswer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody").ok());
  unsetenv("http_proxy");
  unsetenv("ALL_PROXY");
  EXPECT_EQ(sink_.text, "body");
  EXPECT_EQ(proxy.num_connections(), 0);
}

TEST_F(HttpTransportTest, OnlyHttp) {
  for (const char* url : {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/",
                          "dict://127.0.0.1/x", "http://user:pass@127.0.0.1/", "https://", "x"}) {
    sink_ = {};
    EXPECT_FALSE(Get(url).ok()) << url;
    EXPECT_EQ(sink_.text, "") << url;
  }
}

TEST(ResolveUrl, IsWhatWillBeAskedFor) {
  const auto resolve = [](const std::string& location) {
    return ResolveUrl("https://a.example:8443/x/y?z", location);
  };
  EXPECT_EQ(resolve("/b?q=1")->url, "https://a.example:8443/b?q=1");
  EXPECT_EQ(resolve("b")->origin.Text(), "https://a.example:8443");
  EXPECT_EQ(resolve("https://b.example/")->origin.Text(), "https://b.example");
  EXPECT_EQ(resolve("//b.example/")->origin.Text(), "https://b.example");
  for (const std::string& location :
       {std::string("ftp://a.example"), std::string("https://u@a.example/"),
        std::string("https://u:p@a.example/"), std::string("/x\0.evil", 8), std::string("https://"),
        std::string("https://a b/"), std::string("/a\nb")}) {
    EXPECT_FALSE(resolve(location).ok()) << location;
  }
}

}  // namespace
}  // namespace aril

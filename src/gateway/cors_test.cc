#include "gateway/cors.h"

#include <string>
#include <utility>
#include <vector>

#include "gateway/http_test_server.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

CorsPolicy MakePolicy(std::vector<std::string> origins) {
  auto policy = CorsPolicy::Create(std::move(origins));
  EXPECT_TRUE(policy.ok()) << policy.status();
  return *policy;
}

std::string Send(uint16_t port, const std::string& method, const std::string& fields,
                 const std::string& path = "/") {
  RawClient client(port);
  EXPECT_TRUE(client.Send(method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
                          fields + "\r\n"));
  return client.ReadAll();
}

constexpr char kPreflight[] =
    "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
    "Access-Control-Request-Headers: authorization,content-type\r\n";

TEST(Cors, IsOffByDefault) {
  RunningServer server({}, Echo);
  EXPECT_THAT(Send(server->port(), "GET", "Origin: https://app.example\r\n"),
              Not(HasSubstr("Access-Control")));
  // The handler gets to see it, as any other OPTIONS.
  EXPECT_THAT(Send(server->port(), "OPTIONS", kPreflight), HasSubstr("OPTIONS "));
}

TEST(Cors, AnswersPreflightsWithoutTheHandler) {
  RunningServer server({.cors = MakePolicy({"https://app.example"})},
                       [](HttpRequest, auto) { ADD_FAILURE() << "a preflight has no key"; });
  EXPECT_THAT(Send(server->port(), "OPTIONS", kPreflight),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                    HasSubstr("\r\nAccess-Control-Allow-Origin: https://app.example\r\n"),
                    HasSubstr("\r\nAccess-Control-Allow-Headers: authorization,content-type\r\n"),
                    HasSubstr("\r\nAccess-Control-Allow-Methods: GET, HEAD, POST"),
                    HasSubstr("\r\nVary: Origin\r\n"), HasSubstr("\r\nContent-Length: 0\r\n")));
}

// As a browser sends what a form could have sent, without asking first.
std::string SendPost(uint16_t port, const std::string& fields) {
  return Send(port, "POST", "Content-Type: text/plain\r\nContent-Length: 0\r\n" + fields);
}

TEST(Cors, PagesOfOtherOriginsChangeNothing) {
  RunningServer server({}, Echo);
  const auto refused = AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("--allowed-origins"));
  EXPECT_THAT(SendPost(server->port(), "Origin: https://evil.example\r\n"), refused);
  EXPECT_THAT(SendPost(server->port(), "Origin: null\r\n"), refused);
  EXPECT_THAT(SendPost(server->port(), "Sec-Fetch-Site: cross-site\r\n"), refused);
  // Of the same host, but not what the browser says is the same origin.
  EXPECT_THAT(SendPost(server->port(), "Origin: http://x\r\nSec-Fetch-Site: same-site\r\n"),
              refused);
  for (const char* fields :
       {"", "Origin: http://x\r\n", "Origin: http://other\r\nSec-Fetch-Site: same-origin\r\n",
        "Sec-Fetch-Site: none\r\n"}) {
    EXPECT_THAT(SendPost(server->port(), fields), StartsWith("HTTP/1.1 200 ")) << fields;
  }
  EXPECT_THAT(Send(server->port(), "GET", "Origin: https://evil.example\r\n"),
              StartsWith("HTTP/1.1 200 "))
      << "it changes nothing, and its answer is kept from the page";
}

TEST(Cors, PagesThatAreNamedMay) {
  for (const char* origin : {"https://app.example", "*"}) {
    RunningServer server({.cors = MakePolicy({origin})}, Echo);
    EXPECT_THAT(SendPost(server->port(),
                         "Origin: https://app.example\r\n"
                         "Sec-Fetch-Site: cross-site\r\n"),
                StartsWith("HTTP/1.1 200 "));
  }
  RunningServer server({.cors = MakePolicy({"https://app.example"})}, Echo);
  EXPECT_THAT(SendPost(server->port(), "Origin: https://evil.example\r\n"),
              StartsWith("HTTP/1.1 403 "));
}

TEST(Cors, NamesTheOriginOnAnswersStreamsAndErrors) {
  RunningServer server({.cors = MakePolicy({"https://app.example", "http://localhost:3000"})},
                       [](HttpRequest request, auto responder) {
                         if (request.path != "/stream")
                           return Echo(std::move(request), std::move(responder));
                         responder->StartStream({.headers = {}, .body = ""}, "");
                         responder->Finish();
                       });
  const auto names_origin = AllOf(
      HasSubstr("\r\nAccess-Control-Allow-Origin: http://localhost:3000\r\n"),
      HasSubstr("\r\nAccess-Control-Expose-Headers: Retry-After, Aril-Generation, x-ratelimit-"),
      HasSubstr("\r\nVary: Origin\r\n"));
  const std::string origin = "Origin: http://localhost:3000\r\n";
  EXPECT_THAT(Send(server->port(), "GET", origin), AllOf(StartsWith("HTTP/1.1 200"), names_origin));
  EXPECT_THAT(Send(server->port(), "GET", origin, "/stream"),
              AllOf(HasSubstr("chunked"), names_origin));
  EXPECT_THAT(Send(server->port(), "POST", origin + "Content-Length: 99999999999\r\n"),
              AllOf(StartsWith("HTTP/1.1 413"), names_origin));

  // Others are answered, but a browser will not show the answer to the page.
  for (const char* other : {"", "Origin: https://evil.example\r\n", "Origin: null\r\n"}) {
    EXPECT_THAT(Send(server->port(), "GET", other),
                AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\r\nVary: Origin\r\n"),
                      Not(HasSubstr("Access-Control"))));
  }
}

TEST(Cors, AsteriskAllowsEveryOrigin) {
  RunningServer server({.cors = MakePolicy({"*"})}, Echo);
  EXPECT_THAT(Send(server->port(), "GET", "Origin: https://any.example\r\n"),
              AllOf(HasSubstr("\r\nAccess-Control-Allow-Origin: *\r\n"), Not(HasSubstr("Vary"))));
}

TEST(Cors, RefusesWhatIsNoOrigin) {
  for (const char* bad : {"", "app.example", "https://", "https://app.example/", "ftp://a",
                          "https://App.example", "https://*.example/", "null"}) {
    EXPECT_FALSE(CorsPolicy::Create({bad}).ok()) << bad;
  }
  EXPECT_THAT(Message(CorsPolicy::Create({"*", "https://a"}).status()), HasSubstr("give it alone"));
  EXPECT_THAT(Message(CorsPolicy::Create({"https://a/"}).status()), HasSubstr("without a path"));
}

}  // namespace
}  // namespace aril::gateway

// What the server makes of requests as they stand on the wire: the cases of h1spec (written anew
// from its list), and those by which one request is smuggled inside another past some other
// server. Each names the section that decides it: "9112 3.2" is RFC 9112, section 3.2.
//
// Every case is run twice: over a socket, followed by another request, to see that an answer ends
// the connection exactly if it should; and against the parser, cut after every byte.

#include <atomic>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gateway/http_parser.h"
#include "gateway/http_test_server.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using std::string_literals::operator""s;

constexpr RequestLimits kLimits = {.max_header_bytes = 2000, .max_body_bytes = 1000};

struct Case {
  std::string section;
  std::string what;
  std::string request;
  int status = 200;
  std::string echo = "GET ";  // the body of a 200
};

// A request line, a Host, and more of a header.
std::string Get(const std::string& fields) {
  return "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}
std::string Post(const std::string& fields, const std::string& body) {
  return "POST / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + body;
}
std::string Chunked(const std::string& body) {
  return Post("Transfer-Encoding: chunked\r\n", body);
}

size_t CountAnswers(const std::string& text) {
  static constexpr std::string_view kOnceInEach = "\r\nConnection: ";
  size_t count = 0;
  for (size_t at = 0; (at = text.find(kOnceInEach, at)) != std::string::npos; ++at) ++count;
  return count;
}

void RunOverSocket(const std::vector<Case>& cases) {
  std::atomic<int> num_handled = 0;
  RunningServer server({.request = kLimits}, [&](HttpRequest request, auto responder) {
    ++num_handled;
    Echo(std::move(request), std::move(responder));
  });
  for (const Case& c : cases) {
    SCOPED_TRACE(c.section + ": " + c.what);
    num_handled = 0;
    RawClient client(server->port());
    client.Send(c.request + "GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    const std::string answer = client.ReadAll();
    EXPECT_THAT(answer, StartsWith(StrCat("HTTP/1.1 ", c.status, " ")));
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    EXPECT_EQ(num_handled, c.status == 200 ? 2 : 0);
    EXPECT_EQ(CountAnswers(answer), c.status == 200 ? 2u : 1u) << answer;
    EXPECT_THAT(answer, HasSubstr(c.status == 200 ? "X-Path: /next" : "\"error\":")) << answer;
    if (c.status == 200) {
      EXPECT_THAT(answer, HasSubstr("\r\n\r\n" + c.echo + "HTTP/1.1"));
    }
  }
}

// 200 with the echo, or the status of the error; and how much of the input was left.
std::string Outcome(const std::vector<std::string>& pieces) {
  RequestParser parser(kLimits);
  std::string input;
  for (const std::string& piece : pieces) {
    input += piece;
    if (const auto error = parser.Parse(&input)) return StrCat(error->status);
  }
  if (!parser.done()) return "waits";
  const HttpRequest request = parser.TakeRequest();
  return StrCat("200 ", request.method, " ", request.body, input.empty() ? "" : " +" + input);
}

void RunThroughParser(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.section + ": " + c.what);
    const std::string expected = c.status == 200 ? "200 " + c.echo : StrCat(c.status);
    EXPECT_EQ(Outcome({c.request}), expected);
    std::vector<std::string> bytes;
    for (const char byte : c.request) bytes.emplace_back(1, byte);
    EXPECT_EQ(Outcome(bytes), expected);
    if (c.status == 200) {
      EXPECT_EQ(Outcome({c.request + kGet}), expected + " +" + kGet);
    }
  }
}

void RunCases(const std::vector<Case>& cases) {
  RunThroughParser(cases);
  RunOverSocket(cases);
}

// The first fifteen of h1spec, and all others of their kind: no part of a request is answered
// before the rest is there (9112 2.2).
TEST(HttpConformance, WaitsForTheRestOfARequest) {
  static constexpr char kRequest[] = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string request = kRequest;
  RunningServer server({}, Echo);
  RawClient client(server->port());
  for (size_t cut = 1; cut < request.size(); ++cut) {
    EXPECT_EQ(Outcome({request.substr(0, cut)}), "waits") << cut;
    ASSERT_TRUE(client.Send(request.substr(0, cut)));
    ASSERT_TRUE(client.Send(request.substr(cut)));
    EXPECT_THAT(client.ReadUntil("GET "), StartsWith("HTTP/1.1 200 OK\r\n")) << cut;
  }
}

// The other eighteen, in h1spec's order.
TEST(HttpConformance, H1Spec) {
  RunCases({
      {"9112 3", "no version", "GET / \r\n\r\n", 400},
      {"9110 10.1.1", "an expectation without a body", Get("Expect: 100-continue\r\n")},
      {"9112 3", "a GET", "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"},
      {"9112 5.1", "odd but good fields", "GET / HTTP/1.1\r\nhoSt:\texample.com\r\nempty:\r\n\r\n"},
      {"9110 5.1", "brackets in a field name", Get("X-Invalid[]: test\r\n"), 400},
      {"9112 3.2", "no Host", "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 400},
      {"9112 3.2", "two Hosts", Get("Host: b\r\n"), 400},
      {"9110 8.6", "a huge negative length",
       Get("Content-Length: -123456789123456789123456789\r\n"), 400},
      {"9110 8.6", "a negative length", Get("Content-Length: -1234\r\n"), 400},
      {"9110 8.6", "a length of letters", Get("Content-Length: abc\r\n"), 400},
      {"9110 5.5", "an empty value", Get("X-Empty-Header: \r\n")},
      {"9110 5.5", "a control character in a value", Get("X: test\x07\r\n"), 400},
      {"9110 2.5", "HTTP/9.9", "GET / HTTP/9.9\r\nHost: a\r\n\r\n", 505},
      {"9112 3", "more before the method", "Extra lineGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"9112 2.2", "a CR in place of a line end",
       "GET / HTTP/1.1\r\nHost: a\r\n\rSome-Header: Test\r\n\r\n", 400},
      {"9112 6.2", "a POST", Post("Content-Length: 5\r\n", "hello"), 200, "POST hello"},
      {"9112 6.1", "both framings", Get("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
       400},
  });
  // The eighteenth: a client that asks gets its 100 before it sends the body.
  RunningServer server({}, Echo);
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(Post("Expect: 100-continue\r\nContent-Length: 2\r\n", "")));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.Send("hi"));
  EXPECT_THAT(client.ReadUntil("POST hi"), HasSubstr("200 OK"));
}

TEST(HttpConformance, RequestLines) {
  const std::string rest = " HTTP/1.1\r\nHost: a\r\n\r\n";
  RunCases({
      {"9112 2.2", "an empty line before it", "\r\n" + Get("")},
      {"9112 3", "two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"9112 3", "a space at its end", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
      {"9112 3", "a tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"9112 3", "a space before it", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"9112 3", "HTTP/0.9", "GET /\r\n\r\n", 400},
      {"9112 2.3", "http/1.1", "GET / http/1.1\r\nHost: a\r\n\r\n", 400},
      {"9112 2.3", "HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400},
      {"9112 2.3", "HTTP/1,1", "GET / HTTP/1,1\r\nHost: a\r\n\r\n", 400},
      {"9110 2.5", "a later minor version", "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
      {"9113 3.4", "the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"9112 3.1", "a method that is no token", "GE(T) /" + rest, 400},
      {"9112 3.1", "a NUL in the method", "GE\0T /"s + rest, 400},
      {"9112 3.1", "an unknown method", "FROB /" + rest, 200, "FROB "},
      {"8446 5.1", "a TLS handshake", "\x16\x03\x01\x02\0\x01\0"s + rest, 400},
      {"9112 3.2.1", "a query", "GET /?a=%20/../b" + rest},
      {"9112 3.2.1", "no slash", "GET index.html" + rest, 400},
      {"9112 3.2", "a fragment", "GET /#a" + rest, 400},
      {"9112 3.2", "a backslash", "GET /\\a" + rest, 400},
      {"9112 3.2", "a space in the target", "GET /a b" + rest, 400},
      {"9112 3.2", "a NUL in the target", "GET /\0"s + rest, 400},
      {"9112 3.2", "a DEL in the target", "GET /\x7f" + rest, 400},
      {"9112 3.2", "UTF-8 in the target", "GET /\xC3\xA9" + rest, 400},
      {"9112 3.2.2", "the absolute form", "GET http://a:80/b?c" + rest},
      {"9112 3.2.2", "the absolute form without a path", "GET HTTP://a" + rest},
      {"9110 4.2.1", "the absolute form without a host", "GET http:///b" + rest, 400},
      {"9110 4.2.4", "a user in the absolute form", "GET http://u@a/" + rest, 400},
      {"9112 3.2.2", "another scheme", "GET ftp://a/" + rest, 400},
      {"9112 3.2.3", "CONNECT", "CONNECT a:80" + rest, 501},
      {"9112 3.2.4", "the asterisk form", "OPTIONS *" + rest, 200, "OPTIONS "},
      {"9112 3.2.4", "an asterisk for GET", "GET *" + rest, 400},
  });
}

TEST(HttpConformance, Hosts) {
  const auto with_host = [](const std::string& host) {
    return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  };
  RunCases({
      {"9110 7.2", "a port", with_host("a.b-c:8000")},
      {"9110 7.2", "an IPv6 address", with_host("[::1]:8000")},
      {"9112 3.2", "empty", with_host("")},
      {"9112 3.2", "the same twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"9112 3.2", "two in one", with_host("a, b"), 400},
      {"9112 3.2", "a path", with_host("a/b"), 400},
      {"9112 3.2", "a user", with_host("u@a"), 400},
      {"9112 3.2", "a port of letters", with_host("a:b"), 400},
      {"9112 3.2", "half an address", with_host("[::1"), 400},
      {"9112 3.2", "more than an address", with_host("[::1]a"), 400},
      {"9112 3.2", "a space", with_host("a b"), 400},
  });
  EXPECT_EQ(Outcome({"GET / HTTP/1.0\r\n\r\n"}), "200 GET ");
  EXPECT_EQ(Outcome({"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"}), "400");
}

TEST(HttpConformance, Fields) {
  RunCases({
      {"9112 5.1", "a space before the colon", Get("X : y\r\n"), 400},
      {"9112 5.1", "a space before the first", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
      {"9112 5.1", "no colon", Get("X\r\n"), 400},
      {"9112 5.1", "no name", Get(": x\r\n"), 400},
      {"9110 5.6.2", "a NUL in a name", Get("X\0: y\r\n"s), 400},
      {"9110 5.6.2", "UTF-8 in a name", Get("X\xC3\xA9: y\r\n"), 400},
      {"9110 5.5", "a NUL in a value", Get("X: y\0\r\n"s), 400},
      {"9110 5.5", "a DEL in a value", Get("X: y\x7f\r\n"), 400},
      {"9110 5.5", "a tab and obs-text in a value", Get("X: y\tz\xE9\r\n")},
      {"9112 5.2", "a folded line", Get("X: y\r\n z\r\n"), 400},
      {"9112 5.2", "a line folded by a tab", Get("X: y\r\n\tz\r\n"), 400},
      {"9112 5.2", "a folded framing", Post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"),
       400},
      {"9112 2.2", "a bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400},
      {"9112 2.2", "a bare LF after a field", Get("X: y\n"), 400},
      {"9112 2.2", "a bare LF at the header's end", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400},
      {"9112 2.2", "a bare CR in a value", Get("X: y\rZ: z\r\n"), 400},
      {"9112 2.2", "a CR before the line end", Get("X: y\r\r\n"), 400},
      {"9112 9.3", "an unknown connection option", Get("Connection: te, Keep-Alive\r\n")},
      {"9110 7.8", "an upgrade, which is ignored", Get("Connection: upgrade\r\nUpgrade: h2c\r\n")},
      {"9110 10.1.1", "an unknown expectation", Get("Expect: more\r\n"), 417},
  });
}

TEST(HttpConformance, OneFramingOrNone) {
  const std::string chunks = "0\r\n\r\n";
  const std::string te = "Transfer-Encoding: ";
  RunCases({
      {"9112 6.3", "a length on a GET", Get("Content-Length: 2\r\n") + "hi", 200, "GET hi"},
      {"9110 8.6", "zeros before the length", Post("Content-Length: 002\r\n", "hi"), 200,
       "POST hi"},
      {"9110 8.6", "the same length twice",
       Post("Content-Length: 2\r\nContent-Length: 2\r\n", "hi"), 400},
      {"9110 8.6", "two lengths", Post("Content-Length: 2\r\nContent-Length: 3\r\n", "hi"), 400},
      {"9110 8.6", "a list of lengths", Post("Content-Length: 2, 2\r\n", "hi"), 400},
      {"9110 8.6", "a plus", Post("Content-Length: +2\r\n", "hi"), 400},
      {"9110 8.6", "hexadecimal", Post("Content-Length: 0x2\r\n", "hi"), 400},
      {"9110 8.6", "a fraction", Post("Content-Length: 2.0\r\n", "hi"), 400},
      {"9110 8.6", "a space inside", Post("Content-Length: 2 2\r\n", "hi"), 400},
      {"9110 8.6", "no length", Post("Content-Length:\r\n", "hi"), 400},
      {"9110 8.6", "over 2^64", Post("Content-Length: 18446744073709551618\r\n", "hi"), 413},
      {"9110 15.5.14", "over the limit", Post("Content-Length: 1001\r\n", "hi"), 413},
      {"9112 6.1", "length, then chunks",
       Post("Content-Length: 5\r\n" + te + "chunked\r\n", chunks), 400},
      {"9112 6.1", "chunks, then length", Post(te + "chunked\r\nContent-Length: 5\r\n", chunks),
       400},
      {"9112 6.1", "length and an unknown coding",
       Post(te + "gzip\r\nContent-Length: 5\r\n", chunks), 400},
      {"9112 6.1", "chunked in HTTP/1.0",
       "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, 400},
      {"9112 6.1", "an unknown coding below chunks", Post(te + "gzip, chunked\r\n", chunks), 501},
      {"9112 6.1", "the same in two fields", Post(te + "gzip\r\n" + te + "chunked\r\n", chunks),
       501},
      {"9112 6.3", "an unknown coding", Post(te + "gzip\r\n", chunks), 400},
      {"9112 6.3", "chunks inside", Post(te + "chunked, gzip\r\n", chunks), 400},
      {"9112 6.3", "the same in two fields", Post(te + "chunked\r\n" + te + "gzip\r\n", chunks),
       400},
      {"9112 6.3", "identity", Post(te + "identity\r\n", chunks), 400},
      {"9112 6.3", "a list of nothing", Post(te + ",\r\n", chunks), 400},
      {"9112 6.3", "quotes", Post(te + "\"chunked\"\r\n", chunks), 400},
      {"9112 6.3", "parameters", Post(te + "chunked;a=b\r\n", chunks), 400},
      {"9112 6.3", "a vertical tab", Post(te + "\vchunked\r\n", chunks), 400},
      {"9112 6.1", "chunked twice", Post(te + "chunked, chunked\r\n", chunks), 400},
      {"9112 7", "in capitals", Post(te + "CHUNKED\r\n", chunks), 200, "POST "},
  });
}

TEST(HttpConformance, Chunks) {
  const std::string end = "0\r\n\r\n";
  RunCases({
      {"9112 7.1", "two chunks", Chunked("3\r\nabc\r\n2\r\nde\r\n" + end), 200, "POST abcde"},
      {"9112 7.1", "zeros before the size", Chunked("0002\r\nhi\r\n000\r\n\r\n"), 200, "POST hi"},
      {"9112 7.1", "a size in either case", Chunked("a\r\n0123456789\r\nA\r\n0123456789\r\n" + end),
       200, "POST 01234567890123456789"},
      {"9112 7.1", "no size", Chunked("\r\nhi\r\n" + end), 400},
      {"9112 7.1", "a size of letters", Chunked("zz\r\nhi\r\n" + end), 400},
      {"9112 7.1", "a negative size", Chunked("-2\r\nhi\r\n" + end), 400},
      {"9112 7.1", "a plus", Chunked("+2\r\nhi\r\n" + end), 400},
      {"9112 7.1", "a prefix", Chunked("0x2\r\nhi\r\n" + end), 400},
      {"9112 7.1", "a space after the size", Chunked("2 \r\nhi\r\n" + end), 400},
      {"9112 7.1", "a space before the size", Chunked(" 2\r\nhi\r\n" + end), 400},
      {"9112 7.1", "a size over 2^64", Chunked("10000000000000002\r\nhi\r\n" + end), 413},
      {"9112 7.1", "a size of 2^64 - 1", Chunked("ffffffffffffffff\r\nhi\r\n" + end), 413},
      {"9112 7.1", "more than the size", Chunked("2\r\nhi!\r\n" + end), 400},
      {"9112 7.1", "less than the size", Chunked("4\r\nhi\r\n" + end), 400},
      {"9112 7.1", "LF after the size", Chunked("2\nhi\r\n" + end), 400},
      {"9112 7.1", "LF after the chunk", Chunked("2\r\nhi\n" + end), 400},
      {"9112 7.1", "CR after the chunk", Chunked("2\r\nhi\r2\r\nhi\r\n" + end), 400},
      {"9112 7.1", "LF at the end", Chunked("0\r\n\n"), 400},
      {"9112 7.1.1", "extensions", Chunked("2;a;b=c;d=\"e;\\\"f\"\r\nhi\r\n0;g\r\n\r\n"), 200,
       "POST hi"},
      {"9112 7.1.1", "space around extensions", Chunked("2 ; a = b\r\nhi\r\n" + end), 200,
       "POST hi"},
      {"9112 7.1.1", "an extension without a name", Chunked("2;\r\nhi\r\n" + end), 400},
      {"9112 7.1.1", "an extension without a value", Chunked("2;a=\r\nhi\r\n" + end), 400},
      {"9112 7.1.1", "an open quote", Chunked("2;a=\"\r\nhi\r\n" + end), 400},
      {"9112 7.1.1", "LF in an extension", Chunked("2;a\nhi\r\nhi\r\n" + end), 400},
      {"9112 7.1.1", "LF in quotes", Chunked("2;a=\"\n\"\r\nhi\r\n" + end), 400},
      {"9112 7.1.1", "CR in quotes", Chunked("2;a=\"\r\"\r\nhi\r\n" + end), 400},
      {"9112 7.1.2", "trailers, which are dropped",
       Chunked("2\r\nhi\r\n0\r\nX: y\r\nHost: b\r\n\r\n"), 200, "POST hi"},
      {"9112 7.1.2", "a framing as a trailer", Chunked("0\r\nContent-Length: 99\r\n\r\n"), 200,
       "POST "},
      {"9112 5.2", "a folded trailer", Chunked("0\r\nX: y\r\n z\r\n\r\n"), 400},
      {"9112 5.1", "a trailer without a colon", Chunked("0\r\nX\r\n\r\n"), 400},
  });
}

TEST(HttpConformance, Limits) {
  std::string many_fields;
  for (int i = 0; i < 128; ++i) many_fields += "a:\r\n";
  std::string small_chunks;
  for (int i = 0; i < 1000; ++i) small_chunks += "1\r\nx\r\n";
  std::string extended_chunks;
  for (int i = 0; i < 500; ++i) extended_chunks += "1;abcdefghijklmnopqrst\r\nx\r\n";
  const std::string end = "0\r\n\r\n";
  const std::string rest(kLimits.max_header_bytes - Get("X: \r\n").size(), 'y');
  RunCases({
      {"9110 5.4", "a header at the limit", Get("X: " + rest + "\r\n")},
      {"9110 5.4", "a header over it", Get("X: y" + rest + "\r\n"), 431},
      {"9112 3", "a target over it", "GET /" + std::string(2000, 'a'), 431},
      {"9112 2.2", "empty lines over it",
       [] {
         std::string lines;
         while (lines.size() <= kLimits.max_header_bytes) lines += "\r\n";
         return lines;
       }(),
       431},
      {"9110 5.4", "too many fields", Get(many_fields), 431},
      {"9110 8.6", "a body at the limit", Post("Content-Length: 1000\r\n", std::string(1000, 'x')),
       200, "POST " + std::string(1000, 'x')},
      {"9112 7.1", "as many chunks as bytes", Chunked(small_chunks + end), 200,
       "POST " + std::string(1000, 'x')},
      {"9112 7.1", "one byte more", Chunked(small_chunks + "1\r\nx\r\n" + end), 413},
      {"9112 7.1.1", "extensions over the limit", Chunked(extended_chunks + end), 431},
      {"9112 7.1", "a size of many zeros", Chunked(std::string(3000, '0') + "1\r\nx\r\n" + end),
       431},
      {"9112 7.1.2", "trailers over the limit",
       Chunked("0\r\nX: " + std::string(2000, 'y') + "\r\n\r\n"), 431},
  });
}

TEST(HttpConformance, AnswersInTheOrderOfRequestsAStreamBetween) {
  RunningServer server({}, [&server](HttpRequest request, auto responder) {
    if (request.path != "/stream") return Echo(std::move(request), responder);
    responder->StartStream({.content_type = "text/event-stream", .headers = {}, .body = ""}, "");
    responder->Write("begun ");
    server->Post([responder] {
      responder->Write("ended");
      responder->Finish();
    });
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.Send(PostText("/", "one") + "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n" +
                          PostText("/", "two") + PostText("/", "three", "Connection: close\r\n")));
  const std::string answers = client.ReadAll();
  EXPECT_EQ(CountAnswers(answers), 4u);
  EXPECT_LT(answers.find("POST one"), answers.find("6\r\nbegun \r\n5\r\nended\r\n0\r\n\r\n"));
  EXPECT_LT(answers.find("ended"), answers.find("POST two"));
  EXPECT_THAT(answers, EndsWith("POST three"));
}

TEST(HttpConformance, KeepsConnectionsAsTheirVersionSays) {
  const auto keeps = [](const std::string& version, const std::string& connection) {
    RequestParser parser(kLimits);
    std::string text = StrCat("GET / ", version, "\r\nHost: a\r\n", connection, "\r\n");
    EXPECT_FALSE(parser.Parse(&text).has_value());
    return parser.keep_alive();
  };
  EXPECT_TRUE(keeps("HTTP/1.1", ""));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: CLOSE\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: keep-alive\r\nConnection: x, close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", ""));
  EXPECT_TRUE(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", "Connection: keep-alive, close\r\n"));
}

}  // namespace
}  // namespace aril::gateway

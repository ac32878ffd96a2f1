// The server under TLS: that HTTP is the same there, and what is TLS's own.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>

#include "base/strings.h"
#include "base/test_dir.h"
#include "gateway/http_client.h"
#include "gateway/http_test_server.h"
#include "gateway/test_support.h"
#include "gateway/tls_test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Responder = std::shared_ptr<HttpResponder>;

std::string ReadAll(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

class HttpTls : public ::testing::Test {
 protected:
  // OpenSSL writes with write(2): without this, a server that has closed ends the test.
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

  HttpServerOptions Options() const {
    return {.ssl_certfile = certificate_.certfile,
            .ssl_keyfile = certificate_.keyfile,
            .linger_timeout = std::chrono::milliseconds(100)};
  }

  const TestDir dir_;
  const TestCertificate certificate_ = MakeCertificate(dir_ / "server");
};

TEST_F(HttpTls, AnswersManyRequestsOnOneConnection) {
  RunningServer server(Options(), Echo);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server->port(), version);
    ASSERT_TRUE(client.connected());
    for (const size_t body_bytes : {size_t{1}, size_t{100'000}}) {
      const std::string body(body_bytes, 'x');
      ASSERT_TRUE(client.Send(PostText("/", body)));
      EXPECT_THAT(client.ReadUntil("POST " + body), StartsWith("HTTP/1.1 200 OK\r\n"));
    }
    // Pipelined, and the last is the last.
    ASSERT_TRUE(client.Send(PostText("/", "one") + PostText("/", "two", "Connection: close\r\n")));
    EXPECT_THAT(client.ReadAll(), AllOf(HasSubstr("POST one"), EndsWith("POST two")));
    EXPECT_TRUE(client.was_closed_properly());
  }
}

TEST_F(HttpTls, Streams) {
  std::promise<Responder> begun;
  RunningServer server(Options(), [&](HttpRequest, Responder responder) {
    responder->StartStream({.content_type = "text/event-stream", .headers = {}, .body = ""}, "");
    begun.set_value(responder);
  });
  TlsClient client(server->port());
  ASSERT_TRUE(client.Send(kGet));
  const Responder responder = begun.get_future().get();
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  server->Post([responder] { responder->Write("hello"); });
  EXPECT_EQ(client.ReadUntil("hello\r\n"), "5\r\nhello\r\n");
  server->Post([responder] {
    responder->Write("bye");
    responder->Finish();
  });
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "3\r\nbye\r\n0\r\n\r\n");
}

// However it goes: without a word, or with close_notify on a connection that stays open.
TEST_F(HttpTls, TellsWhenTheClientGoesAway) {
  for (const bool with_notify : {false, true}) {
    std::promise<void> waiting;
    std::promise<void> gone;
    RunningServer server(Options(), [&](HttpRequest, Responder responder) {
      responder->OnDisconnect([&] { gone.set_value(); });
      responder->StartStream({.headers = {}, .body = ""}, "");
      waiting.set_value();
    });
    TlsClient client(server->port());
    ASSERT_TRUE(client.Send(kGet));
    waiting.get_future().get();
    if (with_notify) {
      client.SendCloseNotify();
    } else {
      client.Break();
    }
    gone.get_future().get();
  }
}

TEST_F(HttpTls, ReadsAheadWithoutLosingTheNextRequest) {
  std::promise<Responder> begun;
  RunningServer server(Options(), [&](HttpRequest request, Responder responder) {
    if (request.path == "/wait") return begun.set_value(responder);
    Echo(std::move(request), std::move(responder));
  });
  TlsClient client(server->port());
  ASSERT_TRUE(client.Send(PostText("/wait", "")));
  const Responder responder = begun.get_future().get();
  ASSERT_TRUE(client.Send(PostText("/", "next")));
  server->Post([responder] { responder->Respond({.headers = {}, .body = "waited"}); });
  EXPECT_THAT(client.ReadUntil("waited"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(client.ReadUntil("POST next"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

// A refusal arrives although the client is still sending.
TEST_F(HttpTls, RefusesWhatIsTooLarge) {
  HttpServerOptions options = Options();
  options.request.max_body_bytes = 1000;
  RunningServer server(options, Echo);
  TlsClient client(server->port());
  ASSERT_TRUE(client.Send(PostText("/", std::string(100'000, 'x'))));
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpTls, EndsHandshakesThatFailOrNeverEnd) {
  HttpServerOptions options = Options();
  options.handshake_timeout = std::chrono::milliseconds(20);
  RunningServer server(options, Echo);
  RawClient silent(server->port());
  EXPECT_EQ(silent.ReadAll(), "");
  RawClient plain(server->port());
  ASSERT_TRUE(plain.Send(kGet));
  EXPECT_THAT(plain.ReadAll(), Not(HasSubstr("HTTP")));
  TlsClient old(server->port(), TLS1_1_VERSION);
  EXPECT_FALSE(old.connected());
}

TEST_F(HttpTls, RefusesConnectionsAboveTheLimitOverTls) {
  HttpServerOptions options = Options();
  options.max_connections = 1;
  RunningServer server(options, Echo);
  TlsClient first(server->port());
  ASSERT_TRUE(first.Send(kGet));
  EXPECT_THAT(first.ReadUntil("GET "), StartsWith("HTTP/1.1 200"));
  TlsClient second(server->port());
  EXPECT_THAT(second.ReadAll(), StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
}

TEST_F(HttpTls, DrainsIdleConnections) {
  RunningServer server(Options(), Echo);
  TlsClient idle(server->port());
  ASSERT_TRUE(idle.Send(kGet));
  EXPECT_THAT(idle.ReadUntil("GET "), StartsWith("HTTP/1.1 200"));
  server->Drain(std::chrono::seconds(60), [] { ADD_FAILURE() << "timed out"; });
  EXPECT_EQ(idle.ReadAll(), "");
  server.Join();
}

TEST_F(HttpTls, SaysWhatIsWrongWithItsFiles) {
  const auto error = [](const std::string& certfile, const std::string& keyfile) {
    HttpServerOptions options;
    options.port = 0;
    options.ssl_certfile = certfile;
    options.ssl_keyfile = keyfile;
    const auto server = HttpServer::Listen(options);
    return server.ok() ? "" : Message(server.status());
  };
  const auto& [certfile, keyfile] = certificate_;
  EXPECT_EQ(error(certfile, keyfile), "");
  EXPECT_THAT(error("/none.pem", keyfile),
              AllOf(StartsWith("--ssl-certfile /none.pem: "), HasSubstr("o such file")));
  EXPECT_THAT(error(keyfile, keyfile),
              AllOf(StartsWith("--ssl-certfile "), HasSubstr("give a certificate chain in PEM")));
  EXPECT_THAT(error(certfile, "/none.pem"),
              AllOf(StartsWith("--ssl-keyfile /none.pem: "), HasSubstr("o such file")));
  EXPECT_THAT(error(certfile, ""), HasSubstr("give the certificate's private key in PEM"));
  EXPECT_THAT(error(certfile, MakeCertificate(dir_ / "other").keyfile),
              HasSubstr("this is not the key of the certificate " + certfile));
  const TestCertificate encrypted = MakeCertificate(dir_ / "encrypted", /*encrypt_key=*/true);
  EXPECT_THAT(error(encrypted.certfile, encrypted.keyfile), HasSubstr("the key is encrypted"));
}

TEST_F(HttpTls, TakesANewCertificateForNewConnections) {
  RunningServer server(Options(), Echo);
  TlsClient before(server->port());
  const auto is_trusted = [&](const TestCertificate& certificate) {
    setenv("SSL_CERT_FILE", certificate.certfile.c_str(), 1);
    HttpClient client({.host = "127.0.0.1", .port = server->port(), .path = "", .is_https = true},
                      std::chrono::seconds(60));
    const auto response = client.Send({.method = "GET", .path = "/", .headers = {}, .body = ""});
    unsetenv("SSL_CERT_FILE");
    return response.ok();
  };
  const TestCertificate old = {.certfile = dir_.Write("old.crt", ReadAll(certificate_.certfile))};
  const TestCertificate next = MakeCertificate(dir_ / "next");
  std::filesystem::copy_file(next.certfile, certificate_.certfile,
                             std::filesystem::copy_options::overwrite_existing);
  // The key is still the old one's.
  EXPECT_THAT(Message(server->ReloadCertificate()), HasSubstr("not the key of the certificate"));
  EXPECT_TRUE(is_trusted(old));
  std::filesystem::copy_file(next.keyfile, certificate_.keyfile,
                             std::filesystem::copy_options::overwrite_existing);
  const Status reloaded = server->ReloadCertificate();
  ASSERT_TRUE(reloaded.ok()) << reloaded;
  EXPECT_TRUE(is_trusted(next));
  EXPECT_FALSE(is_trusted(old));
  ASSERT_TRUE(before.Send(kGet));
  EXPECT_THAT(before.ReadUntil("GET "), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpTls, TakesTheKeyFromTheCertificatesFile) {
  const std::string both = dir_ / "both.pem";
  std::ofstream(both) << std::ifstream(certificate_.keyfile).rdbuf()
                      << std::ifstream(certificate_.certfile).rdbuf();
  RunningServer server({.ssl_certfile = both}, Echo);
  TlsClient client(server->port());
  ASSERT_TRUE(client.Send(kGet));
  EXPECT_THAT(client.ReadUntil("GET "), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpTls, ClientTrustsTheAuthoritiesItIsTold) {
  RunningServer server(Options(), Echo);
  const auto ask = [&](const std::string& host) {
    HttpClient client({.host = host, .port = server->port(), .path = "/a", .is_https = true},
                      std::chrono::seconds(60));
    return client.Send({.method = "GET", .path = "/b", .headers = {}, .body = ""});
  };
  setenv("SSL_CERT_FILE", certificate_.certfile.c_str(), 1);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const auto response = ask(host);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->body, "GET ");
    EXPECT_EQ(FindHeader(response->headers, "X-Path"), "/a/b");
  }
  setenv("SSL_CERT_FILE", MakeCertificate(dir_ / "other").certfile.c_str(), 1);
  EXPECT_THAT(Message(ask("127.0.0.1").status()), HasSubstr("certificate is not trusted"));
  unsetenv("SSL_CERT_FILE");
}

TEST_F(HttpTls, ClientChecksTheName) {
  HttpServerOptions options = Options();
  options.host = "127.0.0.2";
  RunningServer server(options, Echo);
  setenv("SSL_CERT_FILE", certificate_.certfile.c_str(), 1);
  // An address that the certificate does not have.
  HttpClient client({.host = "127.0.0.2", .port = server->port(), .path = "", .is_https = true},
                    std::chrono::seconds(60));
  const auto response = client.Send({.method = "GET", .path = "/", .headers = {}, .body = ""});
  unsetenv("SSL_CERT_FILE");
  EXPECT_THAT(Message(response.status()), HasSubstr("127.0.0.2"));
  EXPECT_THAT(Message(response.status()), HasSubstr("mismatch"));
}

}  // namespace
}  // namespace aril::gateway

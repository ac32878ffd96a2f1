// For tests: certificates made on the spot, and a TLS client that can misbehave.

#ifndef ARIL_GATEWAY_TLS_TEST_SUPPORT_H_
#define ARIL_GATEWAY_TLS_TEST_SUPPORT_H_

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace aril::gateway {

struct TestCertificate {
  std::string certfile;
  std::string keyfile;
};
// Signed by itself, for localhost and 127.0.0.1, valid for a day; with the password "secret" if
// `encrypt_key`. In files whose paths begin with `prefix`.
TestCertificate MakeCertificate(const std::string& prefix, bool encrypt_key = false);

class TlsClient {
 public:
  // Connects and shakes hands, with at most this version; trusts whatever it is shown.
  explicit TlsClient(uint16_t port, int max_version = 0);
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;
  ~TlsClient();

  bool connected() const { return connected_; }
  std::string version() const { return SSL_get_version(ssl_.get()); }
  bool Send(std::string_view bytes);
  // As of RawClient.
  std::string ReadUntil(std::string_view end);
  std::string ReadAll() { return ReadUntil({}); }
  // Whether the server has said that it ends (close_notify), not only broken off.
  bool was_closed_properly() const {
    return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }
  // close_notify; the connection stays.
  void SendCloseNotify() { SSL_shutdown(ssl_.get()); }
  // Ends the connection without a word.
  void Break();

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  int fd_;
  bool connected_ = false;
  std::string pending_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TLS_TEST_SUPPORT_H_

#include "gateway/tls_test_support.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <span>
#include <utility>

#include "base/check.h"
#include "gateway/test_support.h"

namespace aril::gateway {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

void AddExtension(X509* certificate, int nid, const char* value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
  CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Certificate SelfSigned(EVP_PKEY* key) {
  constexpr long kOneDaySeconds = 86'400;  // NOLINT(google-runtime-int): OpenSSL's type
  Certificate certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kOneDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kOneDaySeconds);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  AddExtension(certificate.get(), NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  CHECK(X509_sign(certificate.get(), key, EVP_sha256()) > 0);
  return certificate;
}

template <typename Write>
void WriteFile(const std::string& path, const Write& write) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  CHECK(file != nullptr);
  CHECK_EQ(write(file), 1);
  CHECK_EQ(std::fclose(file), 0);
}

int Connect(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

}  // namespace

TestCertificate MakeCertificate(const std::string& prefix, bool encrypt_key) {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  CHECK(key != nullptr);
  const Certificate certificate = SelfSigned(key.get());
  TestCertificate files = {prefix + "_cert.pem", prefix + "_key.pem"};
  WriteFile(files.certfile,
            [&](std::FILE* file) { return PEM_write_X509(file, certificate.get()); });
  WriteFile(files.keyfile, [&](std::FILE* file) {
    std::string password = "secret";
    return PEM_write_PKCS8PrivateKey(file, key.get(), encrypt_key ? EVP_aes_256_cbc() : nullptr,
                                     password.data(), static_cast<int>(password.size()), nullptr,
                                     nullptr);
  });
  return files;
}

TlsClient::TlsClient(uint16_t port, int max_version)
    : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
      ssl_(SSL_new(context_.get()), SSL_free),
      fd_(Connect(port)) {
  if (max_version != 0) SSL_set_max_proto_version(ssl_.get(), max_version);
  // The client may offer what OpenSSL's own default would not.
  SSL_set_security_level(ssl_.get(), 0);
  SSL_set_fd(ssl_.get(), fd_);
  connected_ = SSL_connect(ssl_.get()) == 1;
}

TlsClient::~TlsClient() { Break(); }

bool TlsClient::Send(std::string_view bytes) {
  return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
}

std::string TlsClient::ReadUntil(std::string_view end) {
  return TakeUntil(end, &pending_, [this](std::span<char> piece) {
    return SSL_read(ssl_.get(), piece.data(), static_cast<int>(piece.size()));
  });
}

void TlsClient::Break() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace aril::gateway

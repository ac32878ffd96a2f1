#include "gateway/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509err.h>

#include <system_error>

#include "base/strings.h"

namespace aril::gateway {
namespace {

namespace ssl = boost::asio::ssl;

// What went wrong first, which is the most precise of what OpenSSL notes.
using ErrorCode = unsigned long;  // NOLINT(google-runtime-int): OpenSSL's type
ErrorCode TakeError() {
  const ErrorCode code = ERR_peek_error();
  ERR_clear_error();
  return code;
}

std::string Describe(ErrorCode code) {
  if (ERR_SYSTEM_ERROR(code)) return std::generic_category().message(ERR_GET_REASON(code));
  const char* const reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "unknown reason";
}

// OpenSSL would ask on the terminal. Notes that there is something to ask for.
int RefusePassword(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

Status UseCertificates(SSL_CTX* context, const std::string& certfile) {
  if (SSL_CTX_use_certificate_chain_file(context, certfile.c_str()) == 1) return OkStatus();
  return InvalidArgument(StrCat("--ssl-certfile ", certfile, ": ", Describe(TakeError()),
                                "; give a certificate chain in PEM"));
}

Status UseKey(SSL_CTX* context, const std::string& keyfile, const std::string& certfile) {
  bool is_encrypted = false;
  SSL_CTX_set_default_passwd_cb(context, RefusePassword);
  SSL_CTX_set_default_passwd_cb_userdata(context, &is_encrypted);
  const bool is_loaded =
      SSL_CTX_use_PrivateKey_file(context, keyfile.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  if (is_loaded) return OkStatus();
  const ErrorCode code = TakeError();
  const std::string file = StrCat("--ssl-keyfile ", keyfile, ": ");
  if (is_encrypted) {
    return InvalidArgument(StrCat(file, "the key is encrypted; decrypt it with `openssl pkey -in ",
                                  keyfile, " -out key.pem`, and keep that file from others"));
  }
  const bool is_other = ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
                        ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH;
  if (ERR_GET_LIB(code) == ERR_LIB_X509 && is_other) {
    return InvalidArgument(
        StrCat(file, "this is not the key of the certificate ", certfile, "; give its own"));
  }
  return InvalidArgument(
      StrCat(file, Describe(code), "; give the certificate's private key in PEM"));
}

void SetSafeDefaults(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // A client could have the server compute handshake after handshake.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  // Idle connections give their record buffers back.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
}

}  // namespace

StatusOr<std::unique_ptr<ssl::context>> LoadServerTls(const std::string& certfile,
                                                      const std::string& keyfile) {
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  ERR_clear_error();
  SetSafeDefaults(native);
  RETURN_IF_ERROR(UseCertificates(native, certfile));
  RETURN_IF_ERROR(UseKey(native, keyfile.empty() ? certfile : keyfile, certfile));
  return context;
}

std::unique_ptr<ssl::context> MakeClientTls() {
  auto context = std::make_unique<ssl::context>(ssl::context::tls_client);
  SetSafeDefaults(context->native_handle());
  // Without any there is nothing to trust, and the handshake says so.
  SSL_CTX_set_default_verify_paths(context->native_handle());
  SSL_CTX_set_verify(context->native_handle(), SSL_VERIFY_PEER, nullptr);
  return context;
}

Status ExpectHost(SSL* connection, const std::string& host) {
  X509_VERIFY_PARAM* const expected = SSL_get0_param(connection);
  if (X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1) return OkStatus();
  ERR_clear_error();
  const bool is_set = SSL_set_tlsext_host_name(connection, host.c_str()) == 1 &&
                      X509_VERIFY_PARAM_set1_host(expected, host.c_str(), host.size()) == 1;
  return is_set ? OkStatus() : InvalidArgument(StrCat(host, ": ", Describe(TakeError())));
}

}  // namespace aril::gateway

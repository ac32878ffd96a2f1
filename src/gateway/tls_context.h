// TLS settings for both ends of a connection. Internal to the server and the client: includes Asio.

#ifndef ARIL_GATEWAY_TLS_CONTEXT_H_
#define ARIL_GATEWAY_TLS_CONTEXT_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "boost/asio/ssl/context.hpp"

namespace aril::gateway {

// TLS 1.2 or later with this certificate chain and its key, both PEM; an empty `keyfile` means that
// the certificate's file holds the key, too. Errors name the flag and say what to do.
StatusOr<std::unique_ptr<boost::asio::ssl::context>> LoadServerTls(const std::string& certfile,
                                                                   const std::string& keyfile);

// Trusts the system's certificate authorities, or those of $SSL_CERT_FILE and $SSL_CERT_DIR.
std::unique_ptr<boost::asio::ssl::context> MakeClientTls();

// Makes the handshake of a client's connection ask for `host`, a name or an address, and accept its
// certificate only.
Status ExpectHost(SSL* connection, const std::string& host);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TLS_CONTEXT_H_

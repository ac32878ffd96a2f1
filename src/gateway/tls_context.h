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

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TLS_CONTEXT_H_

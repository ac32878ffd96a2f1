// Where a server listens: one socket for each address of its host. Internal to the server: includes
// Asio.

#ifndef ARIL_GATEWAY_HTTP_LISTENER_H_
#define ARIL_GATEWAY_HTTP_LISTENER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"

namespace aril::gateway {

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
using Acceptors = std::vector<boost::asio::ip::tcp::acceptor>;

// What `host` stands for, an address or a name, with that port: of a name all of its addresses,
// each once. InvalidArgument if it cannot be resolved.
StatusOr<Endpoints> ResolveHost(boost::asio::io_context& io, const std::string& host,
                                uint16_t port);

// Listens at those of `endpoints` that are this machine's; at least one. If their port is 0, all
// get the same free one. Unavailable if a port is taken, or no address is this machine's.
StatusOr<Acceptors> ListenAt(boost::asio::io_context& io, Endpoints endpoints);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HTTP_LISTENER_H_

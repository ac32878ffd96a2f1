#include "gateway/http_listener.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/strings.h"

namespace aril::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

error_code Open(const tcp::endpoint& endpoint, tcp::acceptor& acceptor) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error;
}

// The address of another machine; or of this one's localhost, but without IPv6.
bool IsElsewhere(const error_code& error) {
  return error == asio::error::address_family_not_supported ||
         error == boost::system::errc::address_not_available;
}

}  // namespace

StatusOr<Endpoints> ResolveHost(asio::io_context& io, const std::string& host, uint16_t port) {
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return Endpoints{{address, port}};
  error = asio::error::host_not_found;
  tcp::resolver::results_type found;
  if (!host.empty()) {  // which would mean everybody's
    tcp::resolver resolver(io);
    found = resolver.resolve(host, std::to_string(port),
                             tcp::resolver::passive | tcp::resolver::numeric_service, error);
  }
  if (error) {
    return InvalidArgument(StrCat("--host ", host,
                                  " is not an address, and as a name it cannot be resolved (",
                                  error.message(), "); use 127.0.0.1, 0.0.0.0, ::1, …"));
  }
  Endpoints endpoints;
  for (const auto& entry : found) {
    // Whoever has two lines for a name in /etc/hosts may have an address twice.
    if (std::ranges::find(endpoints, entry.endpoint()) == endpoints.end()) {
      endpoints.push_back(entry.endpoint());
    }
  }
  return endpoints;
}

StatusOr<Acceptors> ListenAt(asio::io_context& io, Endpoints endpoints) {
  Acceptors acceptors;
  std::string not_here;
  for (tcp::endpoint& endpoint : endpoints) {
    if (!acceptors.empty()) endpoint.port(acceptors.front().local_endpoint().port());
    tcp::acceptor acceptor(io);
    const error_code error = Open(endpoint, acceptor);
    if (!error) {
      acceptors.push_back(std::move(acceptor));
      continue;
    }
    std::ostringstream where;
    where << endpoint;
    const std::string why = StrCat("cannot listen on ", where.str(), ": ", error.message());
    if (!IsElsewhere(error)) return Unavailable(why + "; choose another --host or --port");
    not_here = why;
  }
  if (acceptors.empty()) return Unavailable(not_here + "; choose another --host or --port");
  return acceptors;
}

}  // namespace aril::gateway

// Which network addresses a server may be sent to by those who may not reach them themselves.

#ifndef ARIL_SOURCES_IP_ADDRESS_H_
#define ARIL_SOURCES_IP_ADDRESS_H_

#include <sys/socket.h>

#include <string>

namespace aril {

enum class AddressReach {
  kPublic,   // everybody's: globally routed unicast
  kPrivate,  // of this machine or network: loopback, RFC 1918, shared, unique local
  kNever,    // nothing that serves files: link-local (where clouds answer with credentials),
             // multicast, unspecified, reserved, documentation, translation and tunnels
};

// Of an IPv4 or IPv6 address, by IANA's special-purpose registries (RFC 6890); kNever for any other
// family. An IPv6 address that carries an IPv4 one is kNever: there is a plain way to write it.
AddressReach ReachOf(const sockaddr& address);

// "127.0.0.1", "::1": for messages.
std::string AddressText(const sockaddr& address);

}  // namespace aril

#endif  // ARIL_SOURCES_IP_ADDRESS_H_

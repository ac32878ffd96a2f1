#include "apps/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/strings.h"

namespace aril {

ServiceManager ServiceManager::FromEnvironment() {
  const char* socket = std::getenv("NOTIFY_SOCKET");
  return ServiceManager(socket != nullptr ? socket : "");
}

void ServiceManager::Ready() const { Notify("READY=1"); }

void ServiceManager::Stopping(std::chrono::microseconds grace) const {
  Notify(StrCat("STOPPING=1\nEXTEND_TIMEOUT_USEC=", grace.count()));
}

void ServiceManager::Notify(const std::string& lines) const {
  if (socket_.empty()) return;
  const Status sent = Send(lines);
  if (!sent.ok()) LogWarning(StrCat("The service manager was not told: ", Message(sent)));
}

Status ServiceManager::Send(const std::string& lines) const {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_.size() >= sizeof(address.sun_path)) {
    return InvalidArgument(StrCat("NOTIFY_SOCKET ", socket_, " is too long"));
  }
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';
  // An abstract name ends where the address does, without a zero.
  const size_t address_bytes = offsetof(sockaddr_un, sun_path) + socket_.size();

  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Internal(StrCat("socket: ", std::strerror(errno)));
  const ssize_t sent =
      sendto(fd, lines.data(), lines.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(address_bytes));
  const int error = errno;
  close(fd);
  if (sent < 0) return Internal(StrCat("NOTIFY_SOCKET ", socket_, ": ", std::strerror(error)));
  return OkStatus();
}

}  // namespace aril

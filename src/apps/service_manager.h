// Tells the service manager how far the service is, by systemd's protocol (sd_notify(3)): a
// datagram of NAME=value lines to the Unix socket that $NOTIFY_SOCKET names.

#ifndef ARIL_APPS_SERVICE_MANAGER_H_
#define ARIL_APPS_SERVICE_MANAGER_H_

#include <chrono>
#include <string>
#include <utility>

#include "base/status.h"

namespace aril {

class ServiceManager {
 public:
  // `socket` is a path, or a name with a leading `@` in the abstract name space; empty: nobody
  // listens, and nothing is sent.
  explicit ServiceManager(std::string socket) : socket_(std::move(socket)) {}
  // The one that started this process, or nobody.
  static ServiceManager FromEnvironment();

  // Requests are answered from now on.
  void Ready() const;
  // Has begun to stop, and should be given this long before it is killed, whatever the unit says.
  void Stopping(std::chrono::microseconds grace) const;

 private:
  // A failure is logged and otherwise without consequence: the service itself is fine.
  void Notify(const std::string& lines) const;
  Status Send(const std::string& lines) const;

  std::string socket_;
};

}  // namespace aril

#endif  // ARIL_APPS_SERVICE_MANAGER_H_

#include "apps/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

// What a service manager listens on. `name` is as in $NOTIFY_SOCKET.
class Listener {
 public:
  explicit Listener(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const size_t bytes = offsetof(sockaddr_un, sun_path) + name.size();
    CHECK_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(bytes)),
             0);
  }
  ~Listener() { close(fd_); }

  // The next datagram; empty if none has come.
  std::string Receive() const {
    char buffer[256];
    const ssize_t size = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
    return size < 0 ? "" : std::string(buffer, static_cast<size_t>(size));
  }

 private:
  int fd_;
};

TEST(ServiceManager, IsToldThroughASocketFile) {
  const TestDir dir;
  const std::string path = dir / "notify";
  const Listener listener(path);
  ServiceManager(path).Ready();
  EXPECT_EQ(listener.Receive(), "READY=1");
}

TEST(ServiceManager, IsToldThroughAnAbstractName) {
  const std::string name = StrCat("@aril-test-", getpid());
  const Listener listener(name);
  ServiceManager(name).Stopping(std::chrono::seconds(40));
  EXPECT_EQ(listener.Receive(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000");
}

TEST(ServiceManager, MayBeNobodyOrGone) {
  ServiceManager("").Ready();
  ServiceManager("/nonexistent/socket").Ready();
  ServiceManager(std::string(200, 'x')).Ready();
}

}  // namespace
}  // namespace aril

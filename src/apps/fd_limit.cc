#include "apps/fd_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace aril {
namespace {

// Weights while they are mapped, connections that are being refused, the event loop, logs.
constexpr size_t kOwnFiles = 256;

}  // namespace

Status RaiseFdLimit(size_t max_connections) {
  rlimit limit = {};
  bool ok = getrlimit(RLIMIT_NOFILE, &limit) == 0;
  limit.rlim_cur = limit.rlim_max;
  ok = ok && setrlimit(RLIMIT_NOFILE, &limit) == 0;
  if (!ok) return Internal(StrCat("cannot raise the limit of open files: ", std::strerror(errno)));
  if (limit.rlim_cur >= kOwnFiles && limit.rlim_cur - kOwnFiles >= max_connections) {
    return OkStatus();
  }
  return FailedPrecondition(StrCat(
      "--max-connections ", max_connections, " needs ", max_connections, " + ", kOwnFiles,
      " open files, but this process may have ", limit.rlim_cur,
      "; raise the hard limit (`ulimit -Hn`, LimitNOFILE= of systemd) or give fewer connections"));
}

}  // namespace aril

#include "base/file_descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace aril {

FileDescriptor::~FileDescriptor() {
  if (is_open()) close(fd_);
}

Status ErrnoStatus(const std::string& path) {
  const std::string message = path + ": " + std::strerror(errno);
  switch (errno) {
    case ENOENT:
    case ENOTDIR:
      return NotFound(message);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return ResourceExhausted(message);
    case EIO:
      return Unavailable(message);
    default:
      return InvalidArgument(message);
  }
}

}  // namespace aril

// What the system's calls on files return: descriptors that close themselves, and errors.

#ifndef ARIL_BASE_FILE_DESCRIPTOR_H_
#define ARIL_BASE_FILE_DESCRIPTOR_H_

#include <string>
#include <utility>

#include "base/status.h"

namespace aril {

// Owns an open file, or none (-1, as open(2) returns). Move-only.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

// What errno says of `path`, right after the call that failed: NotFound for what is not there,
// ResourceExhausted for a full disk or quota or too many open files, Unavailable for a device that
// fails, else InvalidArgument.
Status ErrnoStatus(const std::string& path);

}  // namespace aril

#endif  // ARIL_BASE_FILE_DESCRIPTOR_H_

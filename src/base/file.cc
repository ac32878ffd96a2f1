#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file_descriptor.h"
#include "base/strings.h"

namespace aril {
namespace {

StatusOr<size_t> RegularFileSize(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(path);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path + ": not a regular file");
  return static_cast<size_t>(info.st_size);
}

}  // namespace

bool IsGitLfsPointer(std::string_view contents) {
  return contents.starts_with("version https://git-lfs.github.com/spec/");
}

StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return ErrnoStatus(path);
  return ReadFile(file, path, max_bytes);
}

StatusOr<std::string> ReadFile(const FileDescriptor& file, const std::string& path,
                               size_t max_bytes) {
  ASSIGN_OR_RETURN(const size_t size, RegularFileSize(file.get(), path));
  if (size > max_bytes) {
    return InvalidArgument(StrCat(path, ": ", size, " bytes, more than the ", max_bytes,
                                  " allowed for this kind of file"));
  }
  std::string content(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t n = read(file.get(), content.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(path);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  content.resize(done);
  if (IsGitLfsPointer(content)) {
    return InvalidArgument(
        path + ": a Git LFS pointer, not the file itself: fetch it with `git lfs pull`");
  }
  return content;
}

bool FileExists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return ErrnoStatus(path);
  return Map(file, path);
}

StatusOr<MappedFile> MappedFile::Map(const FileDescriptor& file, const std::string& path) {
  ASSIGN_OR_RETURN(const size_t size, RegularFileSize(file.get(), path));
  MappedFile mapped;
  if (size == 0) return mapped;
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(path);
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_bytes_ = size;
  return mapped;
}

StatusOr<MappedFile> MappedFile::MapGuarded(const FileDescriptor& file, const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile mapped, Map(file, path));
  if (mapped.data_ != nullptr) {
    mapped.guard_ = std::make_unique<MappingGuard>(mapped.data_, mapped.size_bytes_);
  }
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  guard_ = nullptr;  // before the addresses may be another mapping's
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_bytes_);
}

}  // namespace aril

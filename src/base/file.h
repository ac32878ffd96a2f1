// Reading files: whole, bounded; or mapped.

#ifndef ARIL_BASE_FILE_H_
#define ARIL_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace aril {

// Whether these are the contents of a Git LFS pointer file: what a clone without LFS holds in place
// of every large file (git-lfs, docs/spec.md).
bool IsGitLfsPointer(std::string_view contents);

// The bytes of a regular file of at most `max_bytes`. NotFound if there is no such file,
// InvalidArgument if it is larger, not a regular file, or a Git LFS pointer.
StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);
// The same of one that is open; `path` stands in errors.
StatusOr<std::string> ReadFile(const FileDescriptor& file, const std::string& path,
                               size_t max_bytes);

bool FileExists(const std::string& path);

// A read-only, private memory map of a whole file. Move-only. The file must not be truncated while
// it is mapped (the operating system would end the process with SIGBUS).
class MappedFile {
 public:
  static StatusOr<MappedFile> Open(const std::string& path);
  // Of a file that is open, and may be closed then; `path` stands in errors.
  static StatusOr<MappedFile> Map(const FileDescriptor& file, const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace aril

#endif  // ARIL_BASE_FILE_H_

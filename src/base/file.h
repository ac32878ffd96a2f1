// Reading files: whole, bounded; or mapped.

#ifndef ARIL_BASE_FILE_H_
#define ARIL_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/mapping_guard.h"
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

// A read-only, private memory map of a whole file. Move-only.
class MappedFile {
 public:
  // The file must not be truncated while it is mapped (the operating system would end the process
  // with SIGBUS).
  static StatusOr<MappedFile> Open(const std::string& path);
  // Of a file that is open, and may be closed then; `path` stands in errors. Somebody else may
  // truncate it: is_intact() says whether what was read was there.
  static StatusOr<MappedFile> MapGuarded(const FileDescriptor& file, const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  // False once bytes were read that the file does not have any more: they are zeros.
  bool is_intact() const { return guard_ == nullptr || guard_->is_intact(); }

 private:
  static StatusOr<MappedFile> Map(const FileDescriptor& file, const std::string& path);

  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  std::unique_ptr<MappingGuard> guard_;
};

}  // namespace aril

#endif  // ARIL_BASE_FILE_H_

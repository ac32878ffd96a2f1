#include "base/folder.h"

#include <fcntl.h>

#include <cerrno>

namespace aril {

StatusOr<FileDescriptor> Folder::Open(const std::string& name) const {
  if (opener_) return opener_(name);
  const std::string path = PathOf(name);
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return ErrnoStatus(path);
  return file;
}

bool Folder::Has(const std::string& name) const {
  return Open(name).status().code() != StatusCode::kNotFound;
}

StatusOr<std::string> ReadFile(const Folder& folder, const std::string& name, size_t max_bytes) {
  ASSIGN_OR_RETURN(const FileDescriptor file, folder.Open(name));
  return ReadFile(file, folder.PathOf(name), max_bytes);
}

StatusOr<MappedFile> MapFile(const Folder& folder, const std::string& name) {
  ASSIGN_OR_RETURN(const FileDescriptor file, folder.Open(name));
  return MappedFile::MapGuarded(file, folder.PathOf(name));
}

FileDescriptor OpenWithoutLinks(const FileDescriptor& root, const std::filesystem::path& path,
                                int flags) {
  // openat2(2) with RESOLVE_NO_SYMLINKS would do the same in one call, on kernels and in containers
  // that have it; this is the same everywhere.
  FileDescriptor at;
  const FileDescriptor* folder = &root;
  for (auto element = path.begin(); element != path.end();) {
    const std::string name = element->string();
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
      errno = EINVAL;
      return FileDescriptor();
    }
    const bool is_last = ++element == path.end();
    const int how = is_last ? flags : O_PATH | O_DIRECTORY;
    FileDescriptor next(openat(folder->get(), name.c_str(), how | O_NOFOLLOW | O_CLOEXEC));
    if (!next.is_open() || is_last) return next;
    at = std::move(next);
    folder = &at;
  }
  return FileDescriptor(openat(root.get(), ".", flags | O_CLOEXEC));
}

}  // namespace aril

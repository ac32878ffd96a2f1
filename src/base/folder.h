// A folder to read files from: one that a path names, or one whose files are looked up with care.

#ifndef ARIL_BASE_FOLDER_H_
#define ARIL_BASE_FOLDER_H_

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/file_descriptor.h"
#include "base/status.h"

namespace aril {

// Readers take a Folder where it matters who opens its files: what they read is what the opener
// has opened, whatever becomes of the names meanwhile. Thread-safe if its opener is; copies share
// it.
class Folder {
 public:
  // The file of a name beneath the folder ("a/b.json"), for reading. NotFound if there is none.
  using Opener = std::function<StatusOr<FileDescriptor>(const std::string& name)>;

  // A folder that the server's operator has named, or the server has made: every path is one.
  // Links are followed.
  Folder(std::string path) : path_(std::move(path)) {}
  // `path` stands in errors.
  Folder(std::string path, Opener opener) : path_(std::move(path)), opener_(std::move(opener)) {}

  const std::string& path() const { return path_; }
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  // Does not wait for a FIFO's writer; need not be a regular file.
  StatusOr<FileDescriptor> Open(const std::string& name) const;
  // False if Open would say NotFound.
  bool Has(const std::string& name) const;

 private:
  std::string path_;
  Opener opener_;  // empty: the system's, by path
};

// As of a path (base/file.h).
StatusOr<std::string> ReadFile(const Folder& folder, const std::string& name, size_t max_bytes);
StatusOr<MappedFile> MapFile(const Folder& folder, const std::string& name);

// Opens what `path`, relative and without "." and "..", is beneath the open folder `root`, with
// open(2)'s `flags`. No symbolic link is followed, at any place: where there is one, or an element
// is no folder, the result is not open and errno says ELOOP or ENOTDIR.
//
// The walk holds each folder while it looks into it, so that nobody who renames folders or puts
// links in their place can lead it out.
FileDescriptor OpenWithoutLinks(const FileDescriptor& root, const std::filesystem::path& path,
                                int flags);

}  // namespace aril

#endif  // ARIL_BASE_FOLDER_H_

// Whether an adapter's files, where others may write to them, are those that they were.

#ifndef ARIL_CATALOG_VERIFIED_FILES_H_
#define ARIL_CATALOG_VERIFIED_FILES_H_

#include <sys/stat.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/folder.h"
#include "base/status.h"

namespace aril {

// Reads them for their digest, and again only if the file system says that one of them has changed:
// another inode, size or time of its last change (ctime, which nobody can set). A file that has
// changed within the last minute is read in any case, as one more change might not move its time.
// Thread-safe.
class VerifiedFiles {
 public:
  // Their digest is that of what they are now. The errors of DigestOfAdapter.
  static StatusOr<VerifiedFiles> Read(const Folder& dir, const Clock& clock = RealTime());
  VerifiedFiles(VerifiedFiles&& other) noexcept
      : clock_(other.clock_), digest_(std::move(other.digest_)), seen_(std::move(other.seen_)) {}

  const std::string& digest() const { return digest_; }

  // FailedPrecondition if what `dir` has is something else; the errors of DigestOfAdapter.
  Status Check(const Folder& dir);
  int64_t num_readings() const;

 private:
  // Of a file at one moment; equal ones are of the same bytes.
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    int64_t size = 0;
    int64_t modified_ns = 0, changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::vector<std::optional<Stamp>>;  // of each of AdapterFiles, if it is there

  VerifiedFiles(const Clock& clock, std::string digest)
      : clock_(clock), digest_(std::move(digest)) {}
  static const Clock& RealTime();
  static StatusOr<Stamps> Look(const Folder& dir);
  // `stamps` were taken at `unix_seconds`, before the files were read. The next Check reads them
  // again unless they are what the folder has now, too.
  Status Remember(const Stamps& stamps, const Folder& dir, int64_t unix_seconds);

  const Clock& clock_;
  std::string digest_;  // does not change
  mutable std::mutex mutex_;
  std::optional<Stamps> seen_;  // of files with this digest
  int64_t num_readings_ = 1;
};

}  // namespace aril

#endif  // ARIL_CATALOG_VERIFIED_FILES_H_

#include "catalog/verified_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/strings.h"
#include "catalog/generation_store.h"

namespace aril {
namespace {

constexpr int64_t kNanoseconds = 1'000'000'000;
// Longer than the coarsest time stamps, and than clocks of file servers are usually wrong.
constexpr int64_t kSettledSeconds = 60;

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kNanoseconds + time.tv_nsec; }

}  // namespace

const Clock& VerifiedFiles::RealTime() {
  static const RealClock clock;
  return clock;
}

StatusOr<VerifiedFiles> VerifiedFiles::Read(const Folder& dir, const Clock& clock) {
  const int64_t now = clock.UnixSeconds();
  ASSIGN_OR_RETURN(const Stamps stamps, Look(dir));
  ASSIGN_OR_RETURN(std::string digest, DigestOfAdapter(dir));
  VerifiedFiles files(clock, std::move(digest));
  RETURN_IF_ERROR(files.Remember(stamps, dir, now));
  return files;
}

Status VerifiedFiles::Check(const Folder& dir) {
  const int64_t now = clock_.UnixSeconds();
  ASSIGN_OR_RETURN(const Stamps stamps, Look(dir));
  {
    const std::lock_guard lock(mutex_);
    if (seen_ == stamps) return OkStatus();
    ++num_readings_;
  }
  ASSIGN_OR_RETURN(const std::string digest, DigestOfAdapter(dir));
  if (digest != digest_) {
    return FailedPrecondition(
        StrCat(dir.path(), ": the files are not those that were loaded: they are generation ",
               digest, " now, not ", digest_, "; load the adapter again, or put the files back"));
  }
  return Remember(stamps, dir, now);
}

int64_t VerifiedFiles::num_readings() const {
  const std::lock_guard lock(mutex_);
  return num_readings_;
}

StatusOr<VerifiedFiles::Stamps> VerifiedFiles::Look(const Folder& dir) {
  Stamps stamps;
  for (const AdapterFile& kind : AdapterFiles()) {
    std::optional<Stamp>& stamp = stamps.emplace_back();
    const auto file = dir.Open(kind.name);
    if (!kind.required && file.status().code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(file.status());
    struct stat status;
    if (fstat(file->get(), &status) != 0) {
      return Unavailable(StrCat(dir.PathOf(kind.name), ": ", std::strerror(errno)));
    }
    stamp = {.device = status.st_dev,
             .inode = status.st_ino,
             .size = status.st_size,
             .modified_ns = Nanoseconds(status.st_mtim),
             .changed_ns = Nanoseconds(status.st_ctim)};
  }
  return stamps;
}

Status VerifiedFiles::Remember(const Stamps& stamps, const Folder& dir, int64_t unix_seconds) {
  // The names may have been given to other files while these were read.
  ASSIGN_OR_RETURN(const Stamps now, Look(dir));
  const bool is_settled =
      now == stamps && std::ranges::all_of(stamps, [&](const std::optional<Stamp>& stamp) {
        return !stamp || stamp->changed_ns / kNanoseconds + kSettledSeconds < unix_seconds;
      });
  const std::lock_guard lock(mutex_);
  seen_ = is_settled ? std::optional(stamps) : std::nullopt;
  return OkStatus();
}

}  // namespace aril

#include "base/file_watch.h"

#include <sys/stat.h>

#include <utility>

namespace aril {
namespace {

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

FileWatch::FileWatch(std::vector<std::string> paths)
    : paths_(std::move(paths)), known_(Look()), last_(known_) {}

std::vector<FileWatch::State> FileWatch::Look() const {
  std::vector<State> states;
  for (const std::string& path : paths_) {
    struct stat found = {};
    if (stat(path.c_str(), &found) != 0) {
      states.emplace_back();
      continue;
    }
    states.push_back({.is_there = true,
                      .device = found.st_dev,
                      .inode = found.st_ino,
                      .size = found.st_size,
                      .modified_ns = Nanoseconds(found.st_mtim),
                      .status_changed_ns = Nanoseconds(found.st_ctim)});
  }
  return states;
}

bool FileWatch::HasChanged() {
  std::vector<State> now = Look();
  const bool is_settled = now == last_;
  last_ = std::move(now);
  if (!is_settled || last_ == known_) return false;
  known_ = last_;
  return true;
}

}  // namespace aril

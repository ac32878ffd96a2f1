// Notices that files have been replaced or rewritten.

#ifndef ARIL_BASE_FILE_WATCH_H_
#define ARIL_BASE_FILE_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace aril {

// Files that mean something together, such as a certificate and its key. Links are followed: who
// moves a link to other files, as Kubernetes does with those of a volume, has replaced them.
// Used by one thread at a time.
class FileWatch {
 public:
  FileWatch() = default;  // of no files
  // Compares with the files as they are now.
  explicit FileWatch(std::vector<std::string> paths);

  // True once after each change, as soon as the files have been the same at two calls one after the
  // other: whoever writes them is then done, if there is some time between the calls. That one is
  // absent is a change, too.
  bool HasChanged();

 private:
  struct State {
    bool is_there = false;
    uint64_t device = 0, inode = 0;
    int64_t size = 0;
    int64_t modified_ns = 0, status_changed_ns = 0;
    bool operator==(const State&) const = default;
  };
  std::vector<State> Look() const;

  std::vector<std::string> paths_;
  std::vector<State> known_;  // what the caller knows of
  std::vector<State> last_;   // at the last call
};

}  // namespace aril

#endif  // ARIL_BASE_FILE_WATCH_H_

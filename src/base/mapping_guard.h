// Keeps the process alive when pages of a mapped file go away while somebody reads them: the file
// was truncated, or its disk failed. The operating system ends the process with SIGBUS then.

#ifndef ARIL_BASE_MAPPING_GUARD_H_
#define ARIL_BASE_MAPPING_GUARD_H_

#include <atomic>
#include <cstddef>

namespace aril {

// While it exists, pages of [begin, begin + size) that cannot be read are replaced by zeros, and
// are said to be lost: who reads from there asks afterwards. The first one installs a handler of
// SIGBUS, which leaves all other addresses to the handler before it. Neither copied nor moved;
// thread-safe.
class MappingGuard {
 public:
  // `begin`: of a private, read-only mapping, which must outlive the guard.
  MappingGuard(const void* begin, size_t size);
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;
  ~MappingGuard();

  // No page has been lost so far.
  bool is_intact() const { return is_intact_; }

 private:
  friend struct GuardedMappings;
  const std::byte* const begin_;
  const size_t size_;
  std::atomic<bool> is_intact_ = true;
};

}  // namespace aril

#endif  // ARIL_BASE_MAPPING_GUARD_H_

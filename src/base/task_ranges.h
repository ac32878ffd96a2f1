// Hands out numbered tasks to threads so that each has consecutive ones, as far as possible, and
// all end together: for work whose operands are read from memory in the order of the tasks.

#ifndef ARIL_BASE_TASK_RANGES_H_
#define ARIL_BASE_TASK_RANGES_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace aril {

class TaskRanges {
 public:
  explicit TaskRanges(int num_threads) : ranges_(static_cast<size_t>(num_threads)) {}

  // The tasks [0, num_tasks), at most 2^32 - 1, an even part for each thread. Nobody may be in
  // Next.
  void Reset(int64_t num_tasks);

  // The first task left of a thread's own; then the last one of whoever has most left. Nothing: all
  // have been handed out. Thread-safe.
  std::optional<int64_t> Next(int64_t thread);

 private:
  // begin << 32 | end.
  struct alignas(64) Range {
    std::atomic<uint64_t> tasks{0};
  };

  std::vector<Range> ranges_;
};

}  // namespace aril

#endif  // ARIL_BASE_TASK_RANGES_H_

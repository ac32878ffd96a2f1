#include "base/task_ranges.h"

#include "base/check.h"

namespace aril {
namespace {

struct Tasks {
  uint64_t begin;
  uint64_t end;

  uint64_t size() const { return end - begin; }
};

uint64_t Pack(Tasks tasks) { return tasks.begin << 32 | tasks.end; }
Tasks Unpack(uint64_t packed) { return {packed >> 32, packed & UINT32_MAX}; }

}  // namespace

void TaskRanges::Reset(int64_t num_tasks) {
  CHECK_GE(num_tasks, 0);
  CHECK_LE(num_tasks, int64_t{UINT32_MAX});
  const auto tasks = static_cast<uint64_t>(num_tasks);
  const uint64_t threads = ranges_.size();
  for (uint64_t i = 0; i < threads; ++i) {
    ranges_[i].tasks.store(Pack({tasks * i / threads, tasks * (i + 1) / threads}),
                           std::memory_order_relaxed);
  }
}

std::optional<int64_t> TaskRanges::Next(int64_t thread) {
  std::atomic<uint64_t>& own = ranges_[static_cast<size_t>(thread)].tasks;
  uint64_t packed = own.load(std::memory_order_relaxed);
  while (true) {
    const Tasks tasks = Unpack(packed);
    if (tasks.size() == 0) break;
    if (own.compare_exchange_weak(packed, Pack({tasks.begin + 1, tasks.end}),
                                  std::memory_order_relaxed)) {
      return static_cast<int64_t>(tasks.begin);
    }
  }
  while (true) {
    Range* longest = nullptr;
    uint64_t most = 0, size = 0;
    for (Range& range : ranges_) {
      const uint64_t others = range.tasks.load(std::memory_order_relaxed);
      if (Unpack(others).size() <= size) continue;
      longest = &range;
      most = others;
      size = Unpack(others).size();
    }
    if (longest == nullptr) return std::nullopt;
    const Tasks tasks = Unpack(most);
    if (longest->tasks.compare_exchange_strong(most, Pack({tasks.begin, tasks.end - 1}),
                                               std::memory_order_relaxed)) {
      return static_cast<int64_t>(tasks.end - 1);
    }
  }
}

}  // namespace aril

// Time is injected: nothing below apps/ calls a real clock directly.

#ifndef ARIL_BASE_CLOCK_H_
#define ARIL_BASE_CLOCK_H_

#include <atomic>
#include <chrono>

namespace aril {

using Duration = std::chrono::nanoseconds;
// A point on a monotonic clock whose zero means nothing.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic. Thread-safe.
  virtual TimePoint Now() const = 0;
  // Wall time in whole seconds since 1970, for ids and timestamps at the edges. Thread-safe.
  virtual int64_t UnixSeconds() const = 0;
};

class RealClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  int64_t UnixSeconds() const override {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

// A clock that moves only when told to. Thread-safe.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_ns_.load())); }
  int64_t UnixSeconds() const override { return now_ns_.load() / 1'000'000'000; }
  void Advance(Duration by) { now_ns_.fetch_add(by.count()); }

 private:
  std::atomic<int64_t> now_ns_{0};
};

}  // namespace aril

#endif  // ARIL_BASE_CLOCK_H_

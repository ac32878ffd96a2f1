// Counts what a render costs, and ends it with ResourceExhausted when it costs too much.

#ifndef ARIL_JINJA_BUDGET_H_
#define ARIL_JINJA_BUDGET_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "jinja/limits.h"

namespace aril::jinja {

class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits) {}

  // Work that is done; see RenderLimits::max_steps.
  Status ChargeSteps(int64_t steps = 1);
  // Work that reads so many bytes of text: to search, to compare, to count code points.
  Status ChargeScan(size_t size_bytes);
  // Work that asks for a property of each code point in so many bytes: several times as much.
  Status ChargeCodePoints(size_t size_bytes);
  // Memory that is about to be allocated.
  Status ChargeBytes(size_t size_bytes);
  Status ChargeBytes(size_t count, size_t size_bytes_each);

  // One level of nested evaluation, for as long as the object lives. Check `status` first.
  class Nesting {
   public:
    explicit Nesting(Budget* budget);
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    ~Nesting() { --budget_->depth_; }
    Status status() const;

   private:
    Budget* const budget_;
  };

 private:
  const RenderLimits limits_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  int depth_ = 0;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_BUDGET_H_

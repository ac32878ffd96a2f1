#include "jinja/budget.h"

#include "base/checked.h"
#include "base/strings.h"

namespace aril::jinja {
namespace {

// What takes about as long as evaluating an expression, some 100 ns.
constexpr size_t kScannedBytesPerStep = 16;
constexpr size_t kClassifiedBytesPerStep = 4;

}  // namespace

Status Budget::ChargeSteps(int64_t steps) {
  if (steps > limits_.max_steps - steps_) {
    steps_ = limits_.max_steps;
    return ResourceExhausted(
        StrCat("the template takes more than the ", limits_.max_steps, " steps allowed"));
  }
  steps_ += steps;
  return OkStatus();
}

Status Budget::ChargeScan(size_t size_bytes) {
  return ChargeSteps(static_cast<int64_t>(size_bytes / kScannedBytesPerStep));
}

Status Budget::ChargeCodePoints(size_t size_bytes) {
  return ChargeSteps(static_cast<int64_t>(size_bytes / kClassifiedBytesPerStep));
}

Status Budget::ChargeBytes(size_t size_bytes) {
  if (size_bytes > static_cast<size_t>(limits_.max_bytes - bytes_)) {
    bytes_ = limits_.max_bytes;
    return ResourceExhausted(
        StrCat("the template makes more than the ", limits_.max_bytes, " bytes allowed"));
  }
  bytes_ += static_cast<int64_t>(size_bytes);
  return OkStatus();
}

Status Budget::ChargeBytes(size_t count, size_t size_bytes_each) {
  const auto size_bytes = CheckedMul(count, size_bytes_each);
  return ChargeBytes(size_bytes.value_or(SIZE_MAX));
}

Budget::Nesting::Nesting(Budget* budget) : budget_(budget) { ++budget_->depth_; }

Status Budget::Nesting::status() const {
  if (budget_->depth_ <= budget_->limits_.max_depth) return OkStatus();
  return ResourceExhausted(
      StrCat("the template nests deeper than the ", budget_->limits_.max_depth, " calls allowed"));
}

}  // namespace aril::jinja

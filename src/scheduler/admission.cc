#include "scheduler/admission.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace aril::scheduler {
namespace {

// What the last period counts for against all before it: some four periods decide.
constexpr double kSmoothing = 0.25;
// Of capacity: sequences that began together end together, so that what is placed in a second says
// little of the next.
constexpr double kCapacitySmoothing = 0.1;
// An idle day is not walked period by period; after so many, nothing is left of what was before.
constexpr int64_t kForgottenAfter = 64;

constexpr Duration kMinRetry = std::chrono::seconds(1);
constexpr Duration kMaxRetry = std::chrono::seconds(60);

Duration TimeToPlace(double num_sequences, double per_s) {
  const double seconds = num_sequences / std::max(per_s, 1e-3);
  const double most = std::chrono::duration<double>(kMaxRetry).count();
  const auto wait =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(seconds, most)));
  return std::clamp(wait, kMinRetry, kMaxRetry);
}

// After which the first token can still come in time. The longest prefill may be one of an adapter
// that had to be read, or of one very long prompt: half of the objective is left for waiting in any
// case, or such a one would have everybody else turned away for a minute.
Duration LongestWait(Duration slo, const QueueRates& rates) {
  return std::max(slo / 2, slo - rates.max_prefill());
}

}  // namespace

void QueueRates::OnArrival(TimePoint now) {
  Advance(now);
  ++num_arrivals_;
}

void QueueRates::OnPlaced(TimePoint now) {
  Advance(now);
  ++num_placed_;
}

void QueueRates::OnPrefill(Duration latency) { max_prefill_ = std::max(max_prefill_, latency); }

void QueueRates::SetWaiting(bool is_waiting, TimePoint now) {
  Advance(now);
  if (!is_waiting) {
    waiting_since_.reset();
  } else if (!waiting_since_) {
    waiting_since_ = now;
  }
}

void QueueRates::Advance(TimePoint now) {
  if (!period_end_) period_end_ = now + period_;
  for (int64_t i = 0; now >= *period_end_; ++i) {
    if (i == kForgottenAfter) {
      period_end_ = now + period_;
      break;
    }
    arrivals_ += kSmoothing * (static_cast<double>(num_arrivals_) - arrivals_);
    const auto placed = static_cast<double>(num_placed_);
    placed_ += kSmoothing * (placed - placed_);
    if (waiting_since_ && *waiting_since_ <= *period_end_ - period_) {
      capacity_ = capacity_ ? *capacity_ + kCapacitySmoothing * (placed - *capacity_) : placed;
    } else if (capacity_) {
      // What could be placed so soon that nothing waited is less than all that could be; but not in
      // the one period in which empty seats are taken.
      capacity_ = std::max(*capacity_, placed_);
    }
    num_arrivals_ = num_placed_ = 0;
    if (++periods_in_window_ == kForgottenAfter) {
      last_max_prefill_ = std::exchange(max_prefill_, Duration());
      periods_in_window_ = 0;
    }
    *period_end_ += period_;
  }
}

std::optional<double> QueueRates::capacity_per_s() const {
  if (!capacity_) return std::nullopt;
  return *capacity_ / seconds();
}

bool NewestWhenOverloaded::NewestFirst(const QueueRates& rates) const {
  return rates.arrivals_per_s() > rates.placed_per_s();
}

std::optional<Duration> EarlyAbort::MaxWait(const QueueRates& rates) const {
  return LongestWait(slo_, rates);
}

size_t FixedBound::MostWaiting(size_t max_waiting, size_t num_groups) {
  size_t most = 0;
  for (size_t j = 1; j <= num_groups; ++j) most += CeilDiv(max_waiting, j);
  return most;
}

std::optional<Duration> FixedBound::RetryAfter(size_t num_waiting, const QueueRates& rates) const {
  if (num_waiting < max_waiting_) return std::nullopt;
  return TimeToPlace(1, rates.capacity_per_s().value_or(1));
}

std::optional<Duration> ServiceBound::RetryAfter(size_t num_waiting,
                                                 const QueueRates& rates) const {
  if (const auto retry = fixed_.RetryAfter(num_waiting, rates)) return retry;
  const std::optional<double> per_s = rates.capacity_per_s();
  if (!per_s) return std::nullopt;
  const double within = *per_s * std::chrono::duration<double>(LongestWait(slo_, rates)).count();
  const double excess = static_cast<double>(num_waiting) + 1 - std::max(within, 1.0);
  if (excess <= 0) return std::nullopt;
  return TimeToPlace(excess, *per_s);
}

}  // namespace aril::scheduler

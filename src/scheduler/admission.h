// Small policies about waiting: who goes first by age, who has waited too long, and who is not let
// in at all. Each is one interface; the scheduler asks, and tells what happens (QueueRates).

#ifndef ARIL_SCHEDULER_ADMISSION_H_
#define ARIL_SCHEDULER_ADMISSION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace aril::scheduler {

// Moving averages of what comes and what is placed, per period (S-LoRA, appendix B: R1 and R2), and
// the longest prefill lately (l_prefill there; of all history, so that one slow load of an adapter
// would have everything aborted ever after). Not thread-safe.
class QueueRates {
 public:
  explicit QueueRates(Duration period) : period_(period) {}

  void OnArrival(TimePoint now);
  void OnPlaced(TimePoint now);
  // From being placed to the first token.
  void OnPrefill(Duration latency);
  // Whether anything has to wait from now on. What is placed in a period through all of which
  // something waits is all that could be.
  void SetWaiting(bool is_waiting, TimePoint now);
  // Closes the periods that have passed.
  void Advance(TimePoint now);

  double arrivals_per_s() const { return arrivals_ / seconds(); }
  double placed_per_s() const { return placed_ / seconds(); }
  // What can be placed, from the periods in which something always waited; nullopt before the
  // first.
  std::optional<double> capacity_per_s() const;
  Duration max_prefill() const { return std::max(max_prefill_, last_max_prefill_); }

 private:
  double seconds() const { return std::chrono::duration<double>(period_).count(); }

  const Duration period_;
  std::optional<TimePoint> period_end_;
  int64_t num_arrivals_ = 0, num_placed_ = 0;  // in this period
  double arrivals_ = 0, placed_ = 0;           // per period
  std::optional<double> capacity_;
  std::optional<TimePoint> waiting_since_;
  // Of this window of periods, and of the one before.
  Duration max_prefill_{}, last_max_prefill_{};
  int64_t periods_in_window_ = 0;
};

// Which end of the queue goes first.
class OrderPolicy {
 public:
  virtual ~OrderPolicy() = default;
  virtual bool NewestFirst(const QueueRates& rates) const = 0;
};

class FirstComeFirstServed final : public OrderPolicy {
 public:
  bool NewestFirst(const QueueRates&) const override { return false; }
};

class LastComeFirstServed final : public OrderPolicy {
 public:
  bool NewestFirst(const QueueRates&) const override { return true; }
};

// The newest first while more comes than can be served, as they can still meet the objective;
// otherwise the earliest (S-LoRA, appendix B).
class NewestWhenOverloaded final : public OrderPolicy {
 public:
  bool NewestFirst(const QueueRates& rates) const override;
};

// For how long a sequence may wait before it is aborted.
class AbortPolicy {
 public:
  virtual ~AbortPolicy() = default;
  // nullopt: for ever.
  virtual std::optional<Duration> MaxWait(const QueueRates& rates) const = 0;
};

class NeverAbort final : public AbortPolicy {
 public:
  std::optional<Duration> MaxWait(const QueueRates&) const override { return std::nullopt; }
};

// Aborts what could not have its first token within the objective any more, were it placed now: all
// that has waited longer than SLO - l_prefill (S-LoRA, appendix B), and than half of the SLO.
class EarlyAbort final : public AbortPolicy {
 public:
  explicit EarlyAbort(Duration slo) : slo_(slo) {}
  std::optional<Duration> MaxWait(const QueueRates& rates) const override;

 private:
  const Duration slo_;
};

// Whether one more request may wait.
class QueueBound {
 public:
  virtual ~QueueBound() = default;
  // `num_waiting`: those before it, as turns are taken (WaitQueue::NumAhead): who asks for much
  // fills the queue for itself and not for others. nullopt: yes. Else no, and when it is worth
  // trying again.
  virtual std::optional<Duration> RetryAfter(size_t num_waiting, const QueueRates& rates) const = 0;
};

// At most `max_waiting` before each, so that the queue is bounded in any case. (Of a request with
// several sequences, it is asked about the first; the others, as many as one may have, come on
// top.)
class FixedBound final : public QueueBound {
 public:
  explicit FixedBound(size_t max_waiting) : max_waiting_(max_waiting) {}
  // How many wait at most if `num_groups` take turns (TenantPolicy::Group). When the last of a
  // group came, those that came for the last time before it, j - 1 of the groups, waited as well:
  // as turns are taken, less than max_waiting / j of its own were there.
  static size_t MostWaiting(size_t max_waiting, size_t num_groups);
  std::optional<Duration> RetryAfter(size_t num_waiting, const QueueRates& rates) const override;

 private:
  const size_t max_waiting_;
};

// And no more than can be placed within the objective at the present rate, and computed.
class ServiceBound final : public QueueBound {
 public:
  ServiceBound(size_t max_waiting, Duration slo) : fixed_(max_waiting), slo_(slo) {}
  std::optional<Duration> RetryAfter(size_t num_waiting, const QueueRates& rates) const override;

 private:
  const FixedBound fixed_;
  const Duration slo_;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_ADMISSION_H_

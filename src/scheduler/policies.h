// The policies that a scheduler follows, and the choice of them as an operator makes it.

#ifndef ARIL_SCHEDULER_POLICIES_H_
#define ARIL_SCHEDULER_POLICIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "scheduler/admission.h"
#include "scheduler/fair_share.h"
#include "scheduler/runner_index.h"

namespace aril::scheduler {

// The policies in force. Each is owned by the scheduler.
struct Policies {
  std::unique_ptr<OrderPolicy> order = std::make_unique<FirstComeFirstServed>();
  std::unique_ptr<AbortPolicy> abort = std::make_unique<NeverAbort>();
  std::unique_ptr<QueueBound> bound = std::make_unique<FixedBound>(16'384);
  std::unique_ptr<TenantPolicy> tenants = std::make_unique<OneLine>();
  // Runners with as many different adapters in use are not given another one while somebody else
  // can be placed (S-LoRA's clusters of d adapters), nor beyond that share of their pools
  // (placement by ranks, as CaraServe has it: large ones are spread).
  AdapterLimit preferred_adapters;
  // The smallest working set first, as a least-loaded balancer has it: to compare with. (Not with
  // consolidation.)
  bool places_on_smallest = false;
};

enum class QueueOrder { kFirstComeFirstServed, kLastComeFirstServed, kNewestWhenOverloaded };

// Policies have state and are made anew for each reign, from this.
struct PolicyOptions {
  QueueOrder order = QueueOrder::kFirstComeFirstServed;
  // Within which a sequence should have its first token.
  std::optional<Duration> slo;
  bool aborts_early = false;                     // EarlyAbort; only with `slo`
  bool bounds_by_service = false;                // ServiceBound; only with `slo`
  size_t max_waiting = 16'384;                   // in any case
  bool is_fair = false;                          // FairShare
  std::map<std::string, double> tenant_weights;  // of FairShare
  AdapterLimit preferred_adapters;

  bool operator==(const PolicyOptions&) const = default;
};

Policies MakePolicies(const PolicyOptions& options);

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_POLICIES_H_

#include "scheduler/policies.h"

#include "base/check.h"

namespace aril::scheduler {
namespace {

std::unique_ptr<OrderPolicy> MakeOrder(QueueOrder order) {
  switch (order) {
    case QueueOrder::kLastComeFirstServed:
      return std::make_unique<LastComeFirstServed>();
    case QueueOrder::kNewestWhenOverloaded:
      return std::make_unique<NewestWhenOverloaded>();
    case QueueOrder::kFirstComeFirstServed:
      break;
  }
  return std::make_unique<FirstComeFirstServed>();
}

}  // namespace

Policies MakePolicies(const PolicyOptions& options) {
  CHECK(options.slo || (!options.aborts_early && !options.bounds_by_service));
  Policies policies;
  policies.order = MakeOrder(options.order);
  if (options.aborts_early) policies.abort = std::make_unique<EarlyAbort>(*options.slo);
  if (options.bounds_by_service) {
    policies.bound = std::make_unique<ServiceBound>(options.max_waiting, *options.slo);
  } else {
    policies.bound = std::make_unique<FixedBound>(options.max_waiting);
  }
  if (options.is_fair) {
    policies.tenants =
        std::make_unique<FairShare>(FairShareOptions{.weights = options.tenant_weights});
  }
  policies.preferred_adapters = options.preferred_adapters;
  return policies;
}

}  // namespace aril::scheduler

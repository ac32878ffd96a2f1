// What a scheduler tells Prometheus. docs/api.md lists it.

#ifndef ARIL_GATEWAY_SCHEDULER_METRICS_H_
#define ARIL_GATEWAY_SCHEDULER_METRICS_H_

#include <cstdint>
#include <string>

namespace aril::gateway {

// A scheduler at one moment; of one that does not lead, only what is linked to it is not 0.
struct SchedulerCounts {
  bool leads = false;
  int64_t epoch = 0;
  int64_t num_runners = 0;   // linked
  int64_t num_gateways = 0;  // linked
  int64_t num_placed = 0;    // sequences on runners
  int64_t num_waiting = 0;   // sequences in the queue
  // Since it leads.
  int64_t placements = 0;
  int64_t migrations = 0;
  int64_t refusals = 0;
  int64_t aborts = 0;
  int64_t prefix_placements = 0;
  int64_t prefix_tokens = 0;
};

// In the Prometheus text format, version 0.0.4.
std::string SchedulerMetricsText(const SchedulerCounts& counts);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_SCHEDULER_METRICS_H_

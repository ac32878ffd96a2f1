#include "gateway/scheduler_metrics.h"

#include "gateway/metric_family.h"
#include "prometheus/text_serializer.h"

namespace aril::gateway {

std::string SchedulerMetricsText(const SchedulerCounts& counts) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  return prometheus::TextSerializer().Serialize({
      // vLLM's names, by which clusters are scaled.
      Gauge("vllm:num_requests_running", "Sequences on runners", number(counts.num_placed)),
      Gauge("vllm:num_requests_waiting", "Sequences that wait for a runner",
            number(counts.num_waiting)),
      Gauge("aril_scheduler_leads", "1 if this scheduler leads", counts.leads ? 1 : 0),
      Gauge("aril_scheduler_epoch", "Under which it leads", number(counts.epoch)),
      Gauge("aril_scheduler_runners", "Runners linked to it", number(counts.num_runners)),
      Gauge("aril_scheduler_gateways", "Gateways linked to it", number(counts.num_gateways)),
      Counter("aril_scheduler_placements_total", "Attempts placed, migrations included",
              number(counts.placements)),
      Counter("aril_scheduler_migrations_total", "Attempts moved from a runner that ran them",
              number(counts.migrations)),
      Counter("aril_scheduler_refusals_total", "Sequences refused", number(counts.refusals)),
      Counter("aril_scheduler_aborts_total", "Sequences that waited too long",
              number(counts.aborts)),
      Counter("aril_scheduler_prefix_placements_total",
              "Attempts placed where the prompt had probably been computed in part",
              number(counts.prefix_placements)),
      Counter("aril_scheduler_prefix_tokens_total",
              "Tokens of their prompts that had probably been computed there",
              number(counts.prefix_tokens)),
  });
}

}  // namespace aril::gateway

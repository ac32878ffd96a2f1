// Families of metrics that are computed when they are asked for.

#ifndef ARIL_GATEWAY_METRIC_FAMILY_H_
#define ARIL_GATEWAY_METRIC_FAMILY_H_

#include <string>
#include <utility>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"
#include "prometheus/metric_type.h"

namespace aril::gateway {

inline prometheus::MetricFamily MakeFamily(std::string name, std::string help,
                                           prometheus::MetricType type,
                                           std::vector<prometheus::ClientMetric::Label> labels,
                                           double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  if (type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return {std::move(name), std::move(help), type, {std::move(metric)}};
}

inline prometheus::MetricFamily Gauge(std::string name, std::string help, double value) {
  return MakeFamily(std::move(name), std::move(help), prometheus::MetricType::Gauge, {}, value);
}

inline prometheus::MetricFamily Counter(std::string name, std::string help, double value) {
  return MakeFamily(std::move(name), std::move(help), prometheus::MetricType::Counter, {}, value);
}

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_METRIC_FAMILY_H_

// Reading a server's /metrics: the Prometheus text format, version 0.0.4.

#ifndef ARIL_APPS_METRICS_TEXT_H_
#define ARIL_APPS_METRICS_TEXT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace aril {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

// All samples, in order. Comments and lines that are no sample are passed over.
std::vector<MetricSample> ParseMetrics(std::string_view text);

// The value of the first sample of that name that has (at least) these labels.
std::optional<double> FindValue(const std::vector<MetricSample>& samples, const std::string& name,
                                const std::map<std::string, std::string>& labels = {});

// A Prometheus histogram without labels.
struct MetricHistogram {
  std::map<double, double> cumulative;  // upper bound (inclusive) to observations up to it
  double sum = 0;
  double count = 0;
};

// The histogram of that name; nullopt if there is none.
std::optional<MetricHistogram> FindHistogram(const std::vector<MetricSample>& samples,
                                             const std::string& name);

// What was observed between two scrapes.
struct HistogramChange {
  double count = 0;
  double mean = 0;
  double max = 0;  // upper bound of the highest bucket with an observation
};

HistogramChange Difference(const MetricHistogram& before, const MetricHistogram& after);

}  // namespace aril

#endif  // ARIL_APPS_METRICS_TEXT_H_

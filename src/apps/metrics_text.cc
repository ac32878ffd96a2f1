#include "apps/metrics_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace aril {
namespace {

// "+Inf" and numbers; strtod reads "+Inf", too, but not in every locale's spelling.
double ParseNumber(const std::string& text) {
  return text == "+Inf" ? INFINITY : std::strtod(text.c_str(), nullptr);
}

// Reads `name="value",…}` from `line` at `at`, to behind the brace. False if it is not that.
bool ParseLabels(std::string_view line, size_t& at, std::map<std::string, std::string>& labels) {
  while (at < line.size() && line[at] != '}') {
    const size_t equals = line.find("=\"", at);
    if (equals == std::string_view::npos) return false;
    std::string value;
    size_t i = equals + 2;
    for (; i < line.size() && line[i] != '"'; ++i) {
      if (line[i] == '\\' && i + 1 < line.size()) {
        ++i;
        value += line[i] == 'n' ? '\n' : line[i];
      } else {
        value += line[i];
      }
    }
    if (i >= line.size()) return false;
    labels[std::string(line.substr(at, equals - at))] = std::move(value);
    at = i + 1;
    if (at < line.size() && line[at] == ',') ++at;
  }
  return at++ < line.size();
}

std::optional<MetricSample> ParseSample(const std::string& line) {
  if (line.empty() || line[0] == '#') return std::nullopt;
  size_t at = line.find_first_of("{ ");
  if (at == std::string::npos || at == 0) return std::nullopt;
  MetricSample sample;
  sample.name = line.substr(0, at);
  if (line[at] == '{' && !ParseLabels(line, ++at, sample.labels)) return std::nullopt;
  at = line.find_first_not_of(' ', at);
  if (at == std::string::npos) return std::nullopt;
  sample.value = ParseNumber(line.substr(at, line.find(' ', at) - at));
  return sample;
}

}  // namespace

std::vector<MetricSample> ParseMetrics(std::string_view text) {
  std::vector<MetricSample> samples;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (auto sample = ParseSample(line)) samples.push_back(*std::move(sample));
  }
  return samples;
}

std::optional<double> FindValue(const std::vector<MetricSample>& samples, const std::string& name,
                                const std::map<std::string, std::string>& labels) {
  for (const MetricSample& sample : samples) {
    if (sample.name != name) continue;
    const bool has_labels = std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
      const auto found = sample.labels.find(label.first);
      return found != sample.labels.end() && found->second == label.second;
    });
    if (has_labels) return sample.value;
  }
  return std::nullopt;
}

std::optional<MetricHistogram> FindHistogram(const std::vector<MetricSample>& samples,
                                             const std::string& name) {
  MetricHistogram histogram;
  for (const MetricSample& sample : samples) {
    if (sample.name != name + "_bucket") continue;
    const auto bound = sample.labels.find("le");
    if (bound == sample.labels.end()) continue;
    const double upper = ParseNumber(bound->second);
    if (!std::isnan(upper)) histogram.cumulative[upper] = sample.value;
  }
  if (histogram.cumulative.empty()) return std::nullopt;
  histogram.sum = FindValue(samples, name + "_sum").value_or(0);
  histogram.count = FindValue(samples, name + "_count").value_or(0);
  return histogram;
}

HistogramChange Difference(const MetricHistogram& before, const MetricHistogram& after) {
  HistogramChange change;
  change.count = after.count - before.count;
  if (change.count > 0) change.mean = (after.sum - before.sum) / change.count;
  double below = 0;
  for (const auto& [bound, cumulative] : after.cumulative) {
    const auto old = before.cumulative.find(bound);
    const double up_to = cumulative - (old != before.cumulative.end() ? old->second : 0);
    if (up_to > below) change.max = bound;
    below = up_to;
  }
  return change;
}

}  // namespace aril

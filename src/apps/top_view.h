// What `aril top` shows: two scrapes of a server's metrics as lines of text.

#ifndef ARIL_APPS_TOP_VIEW_H_
#define ARIL_APPS_TOP_VIEW_H_

#include <cstddef>
#include <string>
#include <vector>

#include "apps/metrics_text.h"
#include "base/clock.h"

namespace aril {

struct MetricScrape {
  TimePoint time;
  std::vector<MetricSample> samples;
};

struct TextSize {
  size_t columns = 80;
  size_t rows = 0;  // 0: as many as it takes
};

// The load now, and the rates between the two: requests, tokens, what a batch holds, pages of the
// pool by use, and a row for each model with live sequences, busiest first. No line is longer than
// the size allows, nor are there more.
std::vector<std::string> DrawTop(const MetricScrape& before, const MetricScrape& now,
                                 const TextSize& size);

}  // namespace aril

#endif  // ARIL_APPS_TOP_VIEW_H_

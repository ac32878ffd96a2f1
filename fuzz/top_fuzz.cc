// `aril top` in front of a server that answers /metrics with any bytes: two scrapes, and what the
// terminal gets.

#include <algorithm>
#include <string_view>

#include "apps/top_view.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using std::chrono::seconds;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const aril::MetricScrape before = {aril::TimePoint(seconds(1)),
                                     aril::ParseMetrics(bytes.substr(0, size / 2))};
  const aril::MetricScrape now = {aril::TimePoint(seconds(2)), aril::ParseMetrics(bytes)};
  for (const std::string& line : aril::DrawTop(before, now, {})) {
    CHECK(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  }
  return 0;
}

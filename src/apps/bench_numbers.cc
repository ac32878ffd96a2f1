#include "apps/bench_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"

namespace aril {

bool ParseInt(std::string_view text, int64_t* value) {
  int64_t parsed = 0;
  const char* const end = text.data() + text.size();
  const auto [number_end, error] = std::from_chars(text.data(), end, parsed);
  if (error != std::errc() || number_end != end) return false;
  *value = parsed;
  return true;
}

bool ParseNumber(std::string_view text, double* value) {
  double parsed = 0;
  const char* const end = text.data() + text.size();
  const auto [number_end, error] = std::from_chars(text.data(), end, parsed);
  if (error != std::errc() || number_end != end || !std::isfinite(parsed)) return false;
  *value = parsed;
  return true;
}

std::vector<std::string_view> SplitText(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  size_t begin = 0;
  for (size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator, begin)) {
    pieces.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

Duration ToDuration(double seconds) {
  CHECK(std::abs(seconds) < 9e9);
  return Duration(std::llround(seconds * 1e9));
}

double ToSeconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

double Median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace aril

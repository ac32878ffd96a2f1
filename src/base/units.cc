#include "base/units.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace aril {
namespace {

struct Unit {
  std::string_view name;  // in lower case
  double factor;
};

constexpr double kKibi = 1024;
constexpr Unit kSizes[] = {{"", 1},
                           {"b", 1},
                           {"kb", 1e3},
                           {"mb", 1e6},
                           {"gb", 1e9},
                           {"tb", 1e12},
                           {"kib", kKibi},
                           {"mib", kKibi* kKibi},
                           {"gib", kKibi* kKibi* kKibi},
                           {"tib", kKibi* kKibi* kKibi* kKibi}};
// In nanoseconds.
constexpr Unit kDurations[] = {{"ns", 1},  {"us", 1e3},   {"µs", 1e3},  {"ms", 1e6},
                               {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// The value in the smallest unit; nullopt if `text` is no number with one of these units, or if the
// value is beyond what an int64 holds.
std::optional<int64_t> ParseWithUnit(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [number_end, error] =
      std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  std::string_view suffix(number_end, static_cast<size_t>(end - number_end));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  const std::string name = Lower(suffix);
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    const double value = std::round(number * unit.factor);
    // 2^63 itself is not an int64.
    if (value >= 9223372036854775808.0) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  return std::nullopt;
}

}  // namespace

StatusOr<int64_t> ParseSizeBytes(const std::string& text) {
  if (const auto bytes = ParseWithUnit(text, kSizes)) return *bytes;
  return InvalidArgument(StrCat("`", text,
                                "` is not a size; write for example 512MiB, 4GiB, or a "
                                "number of bytes"));
}

StatusOr<Duration> ParseDuration(const std::string& text) {
  if (text == "0") return Duration(0);
  if (const auto ns = ParseWithUnit(text, kDurations)) return Duration(*ns);
  return InvalidArgument(StrCat("`", text,
                                "` is not a duration; write for example 500ms, 30s or "
                                "2min"));
}

}  // namespace aril

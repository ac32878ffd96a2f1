#include "apps/progress.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "base/strings.h"

namespace aril {
namespace {

constexpr Duration kRedrawInterval = std::chrono::milliseconds(100);
// Between the lines in a pipe, which come at every tenth.
constexpr Duration kLineInterval = std::chrono::seconds(1);
constexpr int kBarWidth = 30;
// Clears the rest of a line that was longer before.
constexpr char kEraseToEnd[] = "\x1b[K";

std::string Decimal(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string FormatSeconds(double seconds) {
  if (seconds < 60) return Decimal(seconds, 1) + " s";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  return StrCat(whole / 60, " min ", whole % 60, " s");
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return StrCat(Decimal(value, unit == 0 || value >= 99.95 ? 0 : 1), " ", kUnits[unit]);
}

Progress::Progress(const Options& options, std::ostream& out, const Clock& clock)
    : options_(options), out_(out), clock_(clock), start_(clock.Now()), last_drawn_(start_) {}

double Progress::Seconds() const {
  return std::chrono::duration<double>(clock_.Now() - start_).count();
}

void Progress::Add(uint64_t amount) {
  done_ += amount;
  const uint64_t tenths = 10 * done_ / std::max<uint64_t>(options_.total, 1);
  const TimePoint now = clock_.Now();
  if (now - last_drawn_ < (options_.is_terminal ? kRedrawInterval : kLineInterval)) return;
  if (!options_.is_terminal && (tenths <= tenths_shown_ || tenths >= 10)) return;
  last_drawn_ = now;
  tenths_shown_ = tenths;
  Draw();
}

std::string Progress::Amount(uint64_t amount) const {
  return options_.unit.empty() ? FormatBytes(amount) : StrCat(amount, " ", options_.unit);
}

std::string Progress::Rate(double seconds) const {
  const double rate = static_cast<double>(done_) / seconds;
  if (options_.unit.empty()) return FormatBytes(static_cast<uint64_t>(rate)) + "/s";
  return Decimal(rate, rate < 99.95 ? 1 : 0) + "/s";
}

std::string Progress::State() const {
  const double seconds = Seconds();
  const std::string done = options_.unit.empty() ? FormatBytes(done_) : StrCat(done_);
  std::string text = StrCat(done, " of ", Amount(options_.total));
  if (seconds <= 0 || done_ == 0) return text;
  const auto left = static_cast<double>(options_.total - std::min(done_, options_.total));
  return StrCat(text, ", ", Rate(seconds), ", ",
                FormatSeconds(left * seconds / static_cast<double>(done_)), " left");
}

void Progress::Draw() {
  const uint64_t total = std::max<uint64_t>(options_.total, 1);
  const double part = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total));
  const std::string percent = StrCat(static_cast<int>(100 * part), "%");
  if (!options_.is_terminal) {
    out_ << options_.label << ": " << percent << ", " << State() << std::endl;
    return;
  }
  const auto filled = static_cast<size_t>(part * kBarWidth);
  out_ << '\r' << options_.label << " [" << std::string(filled, '#')
       << std::string(kBarWidth - filled, '.') << "] " << percent << ", " << State() << kEraseToEnd
       << std::flush;
}

void Progress::Finish() {
  const double seconds = Seconds();
  if (options_.is_terminal) out_ << '\r' << kEraseToEnd;
  out_ << options_.label << ": " << Amount(done_) << " in " << FormatSeconds(seconds);
  if (seconds > 0) out_ << " (" << Rate(seconds) << ")";
  out_ << std::endl;
}

}  // namespace aril

#include "apps/bench_arrivals.h"

#include <algorithm>

#include "apps/bench_numbers.h"
#include "apps/bench_random.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr int64_t kMaxConcurrency = 4096;
constexpr double kMinRate = 0.001;
constexpr double kMaxRate = 1e6;
constexpr double kMinCv = 0.01;
constexpr double kMaxCv = 100;
// No arrival is later than this (a century and more, far below what a Duration holds).
constexpr double kMaxSeconds = 4e9;

Status BadArrivals(const std::string& text, const std::string& why) {
  return InvalidArgument(StrCat("`", text, "`: ", why,
                                "; expected closed:CLIENTS, poisson:RATE or gamma:RATE:CV with the "
                                "rate in requests/s, e.g. closed:16, poisson:2.5, gamma:2:8"));
}

// In seconds, of mean 1 / rate.
double NextInterval(const ArrivalSpec& spec, BenchRandom& random) {
  if (spec.kind == ArrivalKind::kPoisson) return random.Exponential() / spec.rate;
  const double variance = spec.cv * spec.cv;
  return random.Gamma(1 / variance) * variance / spec.rate;
}

}  // namespace

StatusOr<ArrivalSpec> ParseArrivals(const std::string& text) {
  const std::vector<std::string_view> parts = SplitText(text, ':');
  ArrivalSpec spec;
  bool is_good = false;
  if (parts[0] == "closed") {
    is_good = parts.size() == 2 && ParseInt(parts[1], &spec.concurrency);
  } else if (parts[0] == "poisson") {
    spec.kind = ArrivalKind::kPoisson;
    is_good = parts.size() == 2 && ParseNumber(parts[1], &spec.rate);
  } else if (parts[0] == "gamma") {
    spec.kind = ArrivalKind::kGamma;
    is_good =
        parts.size() == 3 && ParseNumber(parts[1], &spec.rate) && ParseNumber(parts[2], &spec.cv);
  }
  if (!is_good) return BadArrivals(text, "unknown arrivals");
  if (const Status valid = Validate(spec); !valid.ok()) return BadArrivals(text, Message(valid));
  return spec;
}

std::string Name(const ArrivalSpec& spec) {
  switch (spec.kind) {
    case ArrivalKind::kClosed:
      return StrCat("closed:", spec.concurrency);
    case ArrivalKind::kPoisson:
      return StrCat("poisson:", spec.rate);
    case ArrivalKind::kGamma:
      break;
  }
  return StrCat("gamma:", spec.rate, ":", spec.cv);
}

Status Validate(const ArrivalSpec& spec) {
  if (spec.kind == ArrivalKind::kClosed) {
    if (spec.concurrency >= 1 && spec.concurrency <= kMaxConcurrency) return OkStatus();
    return InvalidArgument(StrCat("there can be 1 to ", kMaxConcurrency, " clients"));
  }
  if (spec.rate < kMinRate || spec.rate > kMaxRate) {
    return InvalidArgument(StrCat("the rate can be ", kMinRate, " to ", kMaxRate, " requests/s"));
  }
  if (spec.kind == ArrivalKind::kGamma && (spec.cv < kMinCv || spec.cv > kMaxCv)) {
    return InvalidArgument(StrCat("the coefficient of variation can be ", kMinCv, " to ", kMaxCv));
  }
  return OkStatus();
}

std::vector<Duration> MakeArrivals(const ArrivalSpec& spec, int64_t num_requests, uint64_t seed) {
  std::vector<Duration> arrivals(static_cast<size_t>(num_requests));
  if (!spec.is_open()) return arrivals;
  BenchRandom random(seed, RandomStream::kArrivals);
  double seconds = 0;
  for (Duration& arrival : arrivals) {
    seconds = std::min(seconds + NextInterval(spec, random), kMaxSeconds);
    arrival = ToDuration(seconds);
  }
  return arrivals;
}

}  // namespace aril

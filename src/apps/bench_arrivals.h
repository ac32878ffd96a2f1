// When the requests of a load are sent.

#ifndef ARIL_APPS_BENCH_ARRIVALS_H_
#define ARIL_APPS_BENCH_ARRIVALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace aril {

enum class ArrivalKind { kClosed, kPoisson, kGamma };

// Closed: `concurrency` clients, each of which sends its next request when its last one is
// answered. Poisson and gamma: an open loop of `rate` requests per second, sent whether or not the
// earlier ones are answered; the times between them have the coefficient of variation `cv` (S-LoRA,
// section 7.1), which for Poisson is 1.
struct ArrivalSpec {
  ArrivalKind kind = ArrivalKind::kClosed;
  int64_t concurrency = 16;
  double rate = 1;
  double cv = 1;

  bool is_open() const { return kind != ArrivalKind::kClosed; }
};

// "closed:16", "poisson:2.5", "gamma:2:8".
StatusOr<ArrivalSpec> ParseArrivals(const std::string& text);
std::string Name(const ArrivalSpec& spec);
// The numbers are within what can be run.
Status Validate(const ArrivalSpec& spec);

// The times of `num_requests` arrivals from the start, ascending; for a closed loop all 0.
std::vector<Duration> MakeArrivals(const ArrivalSpec& spec, int64_t num_requests, uint64_t seed);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_ARRIVALS_H_

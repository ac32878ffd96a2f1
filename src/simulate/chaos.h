// Chaos: a small cluster under load and faults, from one seed.

#ifndef ARIL_SIMULATE_CHAOS_H_
#define ARIL_SIMULATE_CHAOS_H_

#include <array>
#include <cstdint>
#include <string>

#include "base/json.h"
#include "simulate/planted_bug.h"

namespace aril::simulate {

enum class FaultKind {
  kKillScheduler,
  kKillGateway,
  kKillRunner,
  kPauseScheduler,
  kPauseGateway,
  kPauseRunner,
  kPartition,
  kBreakConnection,
  kLoseInFlight,
  kDelay,
  kDuplicate,
  kSlowStore,
  kEtcdOutage,
};
inline constexpr size_t kNumFaultKinds = 13;
std::string Name(FaultKind kind);

struct ChaosResult {
  uint64_t seed = 0;
  std::string violation;  // empty: none
  uint64_t digest = 0;    // of all events
  int64_t num_requests = 0;
  int64_t num_finished = 0, num_errors = 0, num_cancelled = 0, num_broken = 0;
  int64_t num_events = 0;
  int64_t num_evictions = 0, num_refused_starts = 0, num_elections = 0;
  int64_t num_resumed = 0;       // streams that took more than one attempt
  int64_t num_loaded_ahead = 0;  // adapters
  std::array<int64_t, kNumFaultKinds> faults{};

  int64_t num_faults() const;
  // Adds another seed's counts.
  void Add(const ChaosResult& other);
  Json ToJson() const;
};

// Hundreds of requests, dozens of faults in 40 virtual seconds, then time for everything to end.
ChaosResult RunChaos(uint64_t seed, PlantedBug bug = PlantedBug::kNone);

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_CHAOS_H_

// Draining lightly loaded runners (Punica, section 5.1), and advice about their number.

#include <algorithm>

#include "base/checked.h"
#include "scheduler/scheduler.h"

namespace aril::scheduler {

void Scheduler::Consolidate() {
  // Whoever waits, for a seat or for pages, goes before an emptier runner: what is being drained
  // takes sequences again.
  if (!queue_.empty()) {
    for (const RunnerId id : std::vector<RunnerId>(moving_.begin(), moving_.end())) {
      Runner& runner = runners_.at(id);
      if (runner.is_leaving) continue;
      runner.is_draining = false;
      moving_.erase(id);
      SetAccepting(runner);
    }
    PlaceWaiting();
  }
  const bool is_draining = std::any_of(moving_.begin(), moving_.end(),
                                       [this](RunnerId id) { return runners_.at(id).is_draining; });
  if (!is_draining && queue_.empty()) {
    if (const std::optional<RunnerId> id = FindLightlyLoaded()) {
      runners_.at(*id).is_draining = true;
      moving_.insert(*id);
      SetAccepting(runners_.at(*id));
      ++stats_.drains;
    }
  }
  for (const RunnerId id : std::vector<RunnerId>(moving_.begin(), moving_.end())) {
    if (!runners_.at(id).is_leaving) MoveAway(runners_.at(id));
  }
}

void Scheduler::EmptyLeaving() {
  for (const RunnerId id : std::vector<RunnerId>(moving_.begin(), moving_.end())) {
    if (runners_.at(id).is_leaving) MoveAway(runners_.at(id));
  }
}

// A runner is lightly loaded if the others that work can take its sequences without leaving the
// flat part of the step-time curve: they are hardly slower then, and it can idle. The emptiest one
// is the cheapest to drain.
std::optional<RunnerId> Scheduler::FindLightlyLoaded() const {
  if (options_.flat_batch == 0) return std::nullopt;
  int64_t seats = 0;  // in the flat part, of all that work
  std::optional<std::pair<int64_t, RunnerId>> emptiest;
  for (const auto& [size, ids] : index_.by_size()) {
    if (size == 0) continue;
    if (!emptiest) emptiest = {size, *ids.begin()};
    seats += static_cast<int64_t>(ids.size()) * std::max<int64_t>(0, options_.flat_batch - size);
  }
  if (!emptiest || emptiest->first >= options_.flat_batch) return std::nullopt;
  const auto [size, id] = *emptiest;
  const int64_t others = seats - (options_.flat_batch - size);
  if (others < size + options_.drain_margin) return std::nullopt;
  const Runner& runner = runners_.at(id);
  if (now_ - runner.active_since < options_.min_active || !FitsElsewhere(runner)) {
    return std::nullopt;
  }
  return id;
}

// Only where somebody works already, and within the flat part.
PlacementNeed Scheduler::NeedOfDrained(const Record& record) const {
  PlacementNeed need = NeedOf(record);
  need.min_sequences = 1;
  need.max_sequences = options_.flat_batch;
  return need;
}

// Seats are not all that it takes: the others need the pages, too. Each sequence by itself has room
// somewhere, and all together have no more pages than there are. (That is not all that may be
// wrong; what does not fit after all runs on where it is until somebody waits.)
bool Scheduler::FitsElsewhere(const Runner& runner) const {
  int64_t pages = 0;
  for (const auto& [arrival, id] : runner.sequences) {
    const PlacementNeed need = NeedOfDrained(records_.at(id));
    if (!index_.Find(need)) return false;
    pages += need.pages;
  }
  int64_t available = 0;
  for (const auto& [size, ids] : index_.by_size()) {
    if (size == 0 || size >= options_.flat_batch) continue;
    for (const RunnerId id : ids) {
      if (id != runner.id) available += std::max<int64_t>(0, index_.Get(id).available_pages());
    }
  }
  return pages <= available;
}

// Moves some sequences, the newest first: they have the least to compute again.
void Scheduler::MoveAway(Runner& runner) {
  const bool is_leaving = runner.is_leaving;
  int64_t budget = options_.migrations_per_tick;
  std::vector<SequenceId> newest;
  for (auto it = runner.sequences.rbegin(); it != runner.sequences.rend() && budget > 0; ++it) {
    // What no report has shown may just be arriving there.
    if (!records_.at(it->second).is_reported) continue;
    newest.push_back(it->second);
    --budget;
  }
  for (const SequenceId id : newest) {
    Record& record = records_.at(id);
    const PlacementNeed need = is_leaving ? NeedOf(record) : NeedOfDrained(record);
    const std::optional<RunnerId> target = index_.Find(need);
    if (!target) break;  // pages are short; at the next tick
    ++stats_.consolidations;
    Place(record, FindWithPrefix(record, need, *target));
  }
  if (!runner.sequences.empty() || is_leaving) return;
  runner.is_draining = false;
  moving_.erase(runner.id);
  SetAccepting(runner);
}

void Scheduler::Advise() {
  ScaleAdvice advice;
  const auto idle = index_.by_size().find(0);
  const auto num_idle =
      idle == index_.by_size().end() ? 0 : static_cast<int64_t>(idle->second.size());
  if (idle != index_.by_size().end()) {
    // The lowest ids: placement prefers the highest.
    for (const RunnerId id : idle->second) {
      if (num_idle - static_cast<int64_t>(advice.returnable.size()) <= options_.num_reserve) break;
      const Runner& runner = runners_.at(id);
      if (now_ - runner.active_since >= options_.idle_before_return)
        advice.returnable.push_back(id);
    }
  }
  // Nobody idles, and nobody is lightly loaded: the next burst would wait.
  if (num_idle == 0 && !FindLightlyLoaded() && moving_.empty()) {
    const int64_t per_runner = std::max<int64_t>(1, options_.flat_batch);
    advice.num_wanted =
        options_.num_reserve + CeilDiv(static_cast<int64_t>(queue_.size()), per_runner);
  }
  if (advice == advice_) return;
  advice_ = advice;
  actions_.emplace_back(advice);
}

}  // namespace aril::scheduler

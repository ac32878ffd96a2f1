// Placing sequences: from the queue, and from one runner to another.

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "base/strings.h"
#include "scheduler/scheduler.h"

namespace aril::scheduler {

PlacementNeed Scheduler::NeedOf(const Record& record) const {
  return {.sequence = record.sequence,
          .adapter = record.adapter,
          .pages = options_.pages.For(record.num_tokens),
          .adapter_pages = record.adapter_pages,
          // One evicted where it is resumes there by itself.
          .avoid = record.runner.valid() ? record.runner : record.failed_on,
          .numeric_class = record.numeric_class,
          .prefers_smallest = policies_.places_on_smallest};
}

std::optional<RunnerId> Scheduler::FindRunner(const Record& record,
                                              const AdapterLimit& limit) const {
  PlacementNeed need = NeedOf(record);
  need.adapter_limit = limit;
  if (const auto reserved = reservations_.find(record.sequence); reserved != reservations_.end()) {
    if (index_.HasRoom(reserved->second, need)) return reserved->second;
  }
  std::optional<RunnerId> runner = index_.Find(need);
  // A second time on the runner where it failed rather than nowhere, but not at once.
  if (!runner && need.avoid.valid() && !record.runner.valid() &&
      now_ - record.failed_at >= options_.retry_failed_after) {
    need.avoid = RunnerId();
    runner = index_.Find(need);
  }
  if (!runner) return std::nullopt;
  return FindWithPrefix(record, std::move(need), *runner);
}

// Where most of the prompt has probably been computed; of several the largest working set, then one
// that uses the adapter, then the one that was placed on last. What consolidation is to leave idle
// idles all the same: an idle runner is preferred to another idle one at most.
RunnerId Scheduler::FindWithPrefix(const Record& record, PlacementNeed need,
                                   RunnerId otherwise) const {
  if (need.prefers_smallest) return otherwise;
  const bool consolidates = options_.flat_batch > 0;
  if (consolidates && index_.Get(otherwise).num_sequences > 0) need.min_sequences = 1;
  for (size_t i = record.prefix.size(); i-- > 0;) {
    RunnerId best;
    std::pair<int64_t, bool> best_rank;
    for (const RunnerId id : prefixes_.HoldersOf(record.prefix[i])) {
      if (!index_.HasRoom(id, need)) continue;
      const RunnerLoad& load = index_.Get(id);
      if (!need.numeric_class.empty() && load.info.numeric_class != need.numeric_class) continue;
      const std::pair rank(load.num_sequences, load.Uses(need.adapter));
      if (best.valid() && rank < best_rank) continue;
      best = id;
      best_rank = rank;
    }
    if (best.valid()) return best;
  }
  return otherwise;
}

void Scheduler::PlaceWaiting() {
  PlaceReserved();
  while (!queue_.empty() && (!index_.IsFull() || !reservations_.empty())) {
    const std::vector<SequenceId> heads =
        queue_.First(options_.scan_limit, policies_.order->NewestFirst(rates_));
    const AdapterLimit& preferred = policies_.preferred_adapters;
    if (preferred != AdapterLimit() && PlaceOne(heads, preferred)) continue;
    if (!PlaceOne(heads, AdapterLimit())) break;
  }
  rates_.SetWaiting(!queue_.empty(), now_);
  if (!queue_.empty()) PrefetchForWaiting();
}

// Whoever has a runner to itself may not be among the heads any more: nobody else may go there.
void Scheduler::PlaceReserved() {
  const std::map<SequenceId, RunnerId> reservations(reservations_.begin(), reservations_.end());
  for (const auto& [id, runner] : reservations) {
    Record& record = records_.at(id);
    if (record.is_queued && index_.HasRoom(runner, NeedOf(record))) Place(record, runner);
  }
}

bool Scheduler::PlaceOne(const std::vector<SequenceId>& heads, const AdapterLimit& limit) {
  for (const SequenceId id : heads) {
    Record& record = records_.at(id);
    if (HasItsShare(record)) continue;
    const std::optional<RunnerId> runner = FindRunner(record, limit);
    if (!runner) continue;
    Overtake(heads, id);
    Place(record, *runner);
    return true;
  }
  return false;
}

// Whether what is free is for other tenants first. Part of the seats: as if one tenant more had
// something placed, for whom they are kept. Never for who has tokens already.
bool Scheduler::HasItsShare(const Record& record) const {
  const auto found = tenant_loads_.find(record.tenant);
  if (found == tenant_loads_.end() || record.has_started || record.runner.valid()) return false;
  if (tenants_.size() < 2) return false;
  const TenantLoad& load = found->second;
  if (load.num_prompts >= options_.max_tenant_prompts &&
      load.backlog_tokens > options_.max_tenant_backlog_tokens) {
    return true;
  }
  const int64_t num_free = index_.num_free_seats();
  return options_.spare_seats > 0 && num_free <= options_.spare_seats &&
         load.num_sequences * (std::ssize(tenant_loads_) + 1) >= num_placed_ + num_free;
}

// Whoever has been overtaken too often gets a runner that takes nobody else, so that what ends
// there makes room for it: it waits for that runner's sequences at most, and the other runners go
// on.
void Scheduler::Overtake(const std::vector<SequenceId>& heads, SequenceId placed) {
  for (const SequenceId id : heads) {
    if (id == placed) return;
    Record& record = records_.at(id);
    if (record.runner.valid() || HasItsShare(record)) continue;
    if (++record.num_overtaken < options_.max_overtakes) continue;
    if (reservations_.contains(id)) continue;
    const std::optional<RunnerId> runner = index_.Roomiest();
    // One at a time may be kept free of a few; the others must go on.
    if (!runner || reservations_.size() * 2 >= index_.size()) continue;
    const PlacementNeed need = NeedOf(record);
    if (index_.Get(*runner).info.pages_total < need.pages + need.adapter_pages) continue;
    index_.Update(*runner, [&](RunnerLoad& load) { load.reserved_for = id; });
    reservations_[id] = *runner;
    ++stats_.reservations;
  }
}

void Scheduler::Place(Record& record, RunnerId runner) {
  const bool is_migration = record.runner.valid();
  if (record.runner.valid()) Detach(record);
  if (record.is_queued) {
    Dequeue(record);
    rates_.OnPlaced(now_);
  }
  const PlacementNeed need = NeedOf(record);
  const bool needs_adapter = !index_.Get(runner).Uses(record.adapter);
  record.num_generated = 0;
  Attach(record, runner, need.pages + (needs_adapter ? record.adapter_pages : 0));
  ++record.attempt;
  record.placed_at = now_;
  record.is_prefetched = false;
  // What is computed again after a migration is not the tenant's doing.
  if (!is_migration && !record.has_started && record.tenant != kNoTenant) {
    policies_.tenants->OnPrompt(record.tenant, record.num_tokens);
  }
  ++stats_.placements;
  stats_.prefix_placements += record.cached_tokens > 0 ? 1 : 0;
  stats_.prefix_tokens += record.cached_tokens;
  stats_.migrations += is_migration ? 1 : 0;
  actions_.emplace_back(
      wire::Placement{epoch_, record.sequence, record.gateway, record.attempt, runner});
}

void Scheduler::Refuse(SequenceId sequence, GatewayId gateway, Duration retry_after,
                       const std::string& reason) {
  ++stats_.refusals;
  actions_.emplace_back(scheduler::Refuse{sequence, gateway, retry_after, reason});
}

// All runners are full, or kept for others: what the next ones lack can be loaded meanwhile.
void Scheduler::PrefetchForWaiting() {
  const bool newest_first = policies_.order->NewestFirst(rates_);
  for (const SequenceId id : queue_.First(options_.max_prefetches, newest_first)) {
    Record& record = records_.at(id);
    // Who has given way goes on where it was, if it can.
    if (record.adapter == kBaseModel || record.is_prefetched || record.runner.valid()) continue;
    const std::optional<RunnerId> runner = LikelyRunner(id);
    if (!runner) return;
    last_prefetch_ = *runner;
    if (*runner == record.failed_on) continue;
    record.is_prefetched = true;
    if (index_.Get(*runner).Uses(record.adapter)) continue;
    actions_.emplace_back(Prefetch{id, record.gateway, *runner});
  }
}

// Where a seat is free, but not the pages; else any may be the next with a free one.
std::optional<RunnerId> Scheduler::LikelyRunner(SequenceId sequence) const {
  const auto reserved = reservations_.find(sequence);
  if (reserved != reservations_.end()) return reserved->second;
  if (const auto roomiest = index_.Roomiest()) return roomiest;
  return index_.AcceptingAfter(last_prefetch_);
}

void Scheduler::AbortExpired() {
  const std::optional<Duration> max_wait = policies_.abort->MaxWait(rates_);
  if (!max_wait) return;
  while (const auto oldest = queue_.Oldest()) {
    if (now_ - oldest->first <= *max_wait) return;
    const GatewayId gateway = records_.at(oldest->second).gateway;
    ++stats_.aborts;
    Refuse(oldest->second, gateway, std::chrono::seconds(1),
           "the request waited too long to be answered in time; try again later");
    Drop(oldest->second);
  }
}

}  // namespace aril::scheduler

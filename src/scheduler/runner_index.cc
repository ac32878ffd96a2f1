#include "scheduler/runner_index.h"

#include <iterator>
#include <utility>

#include "base/check.h"

namespace aril::scheduler {

void RunnerLoad::Use(AdapterId adapter, int64_t pages) {
  InUse& in_use = adapters[adapter];
  if (++in_use.num_sequences > 1) return;
  in_use.pages = pages;
  adapter_pages += pages;
}

void RunnerLoad::Unuse(AdapterId adapter) {
  const auto in_use = adapters.find(adapter);
  CHECK(in_use != adapters.end());
  if (--in_use->second.num_sequences > 0) return;
  adapter_pages -= in_use->second.pages;
  adapters.erase(in_use);
}

void RunnerIndex::Add(RunnerLoad load) {
  const RunnerId id = load.info.runner;
  const auto [it, is_new] = runners_.emplace(id, std::move(load));
  CHECK(is_new);
  Insert(it->second);
}

void RunnerIndex::Remove(RunnerId id) {
  const auto it = runners_.find(id);
  CHECK(it != runners_.end());
  Erase(it->second);
  runners_.erase(it);
}

void RunnerIndex::Update(RunnerId id, const std::function<void(RunnerLoad&)>& change) {
  RunnerLoad& load = runners_.at(id);
  Erase(load);
  change(load);
  CHECK_GE(load.num_sequences, 0);
  CHECK_GE(load.promised_pages, 0);
  CHECK_GE(load.backlog_tokens, 0);
  Insert(load);
}

bool RunnerIndex::IsOpen(const RunnerLoad& load) const {
  return load.is_accepting && load.num_evicted == 0 && !load.reserved_for.valid() &&
         FreeSeats(load) > 0 && load.backlog_tokens <= max_backlog_tokens_;
}

void RunnerIndex::Insert(const RunnerLoad& load) {
  const RunnerId id = load.info.runner;
  if (load.is_accepting) by_size_[load.num_sequences].insert(id);
  if (!IsOpen(load)) return;
  ++num_open_;
  num_free_seats_ += FreeSeats(load);
  open_[load.info.numeric_class][load.num_sequences].emplace(Room(load), id.value());
  for (const auto& [adapter, in_use] : load.adapters) {
    with_adapter_[adapter].emplace(load.num_sequences, in_use.num_sequences, id);
  }
}

void RunnerIndex::Erase(const RunnerLoad& load) {
  const RunnerId id = load.info.runner;
  if (load.is_accepting) {
    const auto size = by_size_.find(load.num_sequences);
    size->second.erase(id);
    if (size->second.empty()) by_size_.erase(size);
  }
  if (!IsOpen(load)) return;
  --num_open_;
  num_free_seats_ -= FreeSeats(load);
  const auto buckets = open_.find(load.info.numeric_class);
  const auto bucket = buckets->second.find(load.num_sequences);
  bucket->second.erase({Room(load), id.value()});
  if (bucket->second.empty()) buckets->second.erase(bucket);
  if (buckets->second.empty()) open_.erase(buckets);
  for (const auto& [adapter, in_use] : load.adapters) {
    const auto of_adapter = with_adapter_.find(adapter);
    of_adapter->second.erase({load.num_sequences, in_use.num_sequences, id});
    if (of_adapter->second.empty()) with_adapter_.erase(of_adapter);
  }
}

bool RunnerIndex::Fits(const RunnerLoad& load, const PlacementNeed& need) const {
  const bool uses_adapter = load.Uses(need.adapter);
  const AdapterLimit& limit = need.adapter_limit;
  // One that is beyond the limit by itself is alone at best.
  const bool is_within_limit =
      load.adapters.empty() || (std::ssize(load.adapters) < limit.number &&
                                static_cast<double>(load.adapter_pages + need.adapter_pages) <=
                                    limit.pool_share * static_cast<double>(load.info.pages_total));
  return load.info.runner != need.avoid && load.num_sequences >= need.min_sequences &&
         load.num_sequences < need.max_sequences && (uses_adapter || is_within_limit) &&
         Room(load) >= need.pages + (uses_adapter ? 0 : need.adapter_pages);
}

bool RunnerIndex::HasRoom(RunnerId id, const PlacementNeed& need) const {
  const RunnerLoad& load = Get(id);
  const bool is_mine = load.reserved_for.valid() && load.reserved_for == need.sequence;
  const bool is_open =
      is_mine ? load.is_accepting && load.num_evicted == 0 && FreeSeats(load) > 0 : IsOpen(load);
  return is_open && Fits(load, need);
}

std::optional<RunnerIndex::Choice> RunnerIndex::FindAmong(const Buckets& buckets,
                                                          const PlacementNeed& need) const {
  if (need.prefers_smallest) {
    for (auto it = buckets.rbegin(); it != buckets.rend(); ++it) {
      if (const auto choice = FindInBucket(it->first, it->second, need)) return choice;
    }
    return std::nullopt;
  }
  for (const auto& [num_sequences, bucket] : buckets) {
    if (num_sequences < need.min_sequences) break;
    if (num_sequences >= need.max_sequences) continue;
    if (const auto choice = FindInBucket(num_sequences, bucket, need)) return choice;
  }
  return std::nullopt;
}

// Those that use the adapter and have not the room for another copy of it are found by
// FindWithAdapter.
std::optional<RunnerIndex::Choice> RunnerIndex::FindInBucket(int64_t num_sequences,
                                                             const Bucket& bucket,
                                                             const PlacementNeed& need) const {
  int probes = 0;
  std::optional<Choice> choice;
  int64_t room = 0;
  for (auto it = bucket.lower_bound({need.pages + need.adapter_pages, 0});
       it != bucket.end() && probes < kMaxProbes; ++it, ++probes) {
    if (choice && it->first != room) break;
    const RunnerId id(it->second);
    if (!Fits(Get(id), need)) continue;
    choice = {id, num_sequences};  // the highest id of the same room
    room = it->first;
  }
  return choice;
}

std::optional<RunnerIndex::Choice> RunnerIndex::FindWithAdapter(const PlacementNeed& need,
                                                                bool same_class) const {
  const auto of_adapter = with_adapter_.find(need.adapter);
  if (need.adapter == kBaseModel || of_adapter == with_adapter_.end()) return std::nullopt;
  if (need.prefers_smallest) return std::nullopt;
  int probes = 0;
  std::optional<Choice> choice;
  std::pair<int64_t, int32_t> rank;
  int64_t room = 0;
  for (const auto& [num_sequences, count, id] : of_adapter->second) {
    if (++probes > kMaxProbes || (choice && std::pair(num_sequences, count) != rank)) break;
    const RunnerLoad& load = Get(id);
    if (!Fits(load, need) || (same_class && load.info.numeric_class != need.numeric_class))
      continue;
    if (choice && Room(load) >= room) continue;
    choice = {id, num_sequences};
    rank = {num_sequences, count};
    room = Room(load);
  }
  return choice;
}

std::optional<RunnerId> RunnerIndex::Find(const PlacementNeed& need) const {
  if (!need.numeric_class.empty()) {
    const auto same = open_.find(need.numeric_class);
    std::optional<Choice> best = same == open_.end() ? std::nullopt : FindAmong(same->second, need);
    const std::optional<Choice> warm = FindWithAdapter(need, true);
    if (warm && (!best || warm->num_sequences >= best->num_sequences)) best = warm;
    if (best) return best->runner;
  }
  std::optional<Choice> best = FindWithAdapter(need, false);
  for (const auto& [name, buckets] : open_) {
    const std::optional<Choice> choice = FindAmong(buckets, need);
    if (!choice) continue;
    const bool is_better =
        !best || (need.prefers_smallest ? choice->num_sequences < best->num_sequences
                                        : choice->num_sequences > best->num_sequences);
    if (is_better) best = choice;
  }
  if (!best) return std::nullopt;
  return best->runner;
}

std::optional<RunnerId> RunnerIndex::Roomiest() const {
  std::optional<std::pair<int64_t, int32_t>> best;
  for (const auto& [name, buckets] : open_) {
    for (const auto& [size, bucket] : buckets) {
      if (!best || *bucket.rbegin() > *best) best = *bucket.rbegin();
    }
  }
  if (!best) return std::nullopt;
  return RunnerId(best->second);
}

std::optional<RunnerId> RunnerIndex::AcceptingAfter(RunnerId last) const {
  std::optional<RunnerId> next, first;
  for (const auto& [size, ids] : by_size_) {
    if (!first || *ids.begin() < *first) first = *ids.begin();
    const auto after = ids.upper_bound(last);
    if (after != ids.end() && (!next || *after < *next)) next = *after;
  }
  return next ? next : first;
}

}  // namespace aril::scheduler

#include "scheduler/wait_queue.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace aril::scheduler {
namespace {

template <typename Iterator, typename Use>
void ForFirst(Iterator begin, size_t size, size_t limit, const Use& use) {
  std::for_each_n(begin, static_cast<std::ptrdiff_t>(std::min(size, limit)), use);
}

}  // namespace

void WaitQueue::Add(const QueueKey& key) {
  CHECK(keys_.emplace(key.sequence, key).second);
  const int32_t group = tenants_.Group(key.tenant);
  Line& line = lines_[group];
  if (line.at.empty()) tenants_.OnBacklogged(group);
  const Place place = {key.arrival, key.sequence};
  CHECK(line.at.emplace(place, Standing{key.tenant, key.has_started}).second);
  if (key.has_started) return;
  AddTo(line.of_tenant[key.tenant], key);
  not_started_.insert(place);
}

void WaitQueue::Remove(SequenceId sequence) {
  const auto found = keys_.find(sequence);
  CHECK(found != keys_.end());
  const QueueKey key = found->second;
  keys_.erase(found);
  const int32_t group = tenants_.Group(key.tenant);
  Line& line = lines_.at(group);
  const Place arrival = {key.arrival, key.sequence};
  Place place = arrival;
  if (!key.has_started) {
    Own& own = line.of_tenant.at(key.tenant);
    place = RemoveFrom(own, key);
    if (own.places.empty()) line.of_tenant.erase(key.tenant);
    not_started_.erase(arrival);
  }
  CHECK_EQ(line.at.erase(place), size_t{1});
  if (line.at.empty()) {
    lines_.erase(group);
    tenants_.OnEmpty(group);
  }
}

void WaitQueue::AddTo(Own& own, const QueueKey& key) {
  const Place arrival = {key.arrival, key.sequence};
  if (own.places.empty()) own.priority = key.priority;
  own.has_exchanged |= key.priority != own.priority;
  own.places.insert(arrival);
  own.oldest_first.insert({-int64_t{key.priority}, arrival});
  own.newest_first.insert({key.priority, arrival});
}

WaitQueue::Place WaitQueue::RemoveFrom(Own& own, const QueueKey& key) {
  const Place arrival = {key.arrival, key.sequence};
  const std::pair by_priority(-int64_t{key.priority}, arrival);
  const auto at = own.places.find_by_order(own.oldest_first.order_of_key(by_priority));
  const Place place = *at;
  own.places.erase(at);
  own.oldest_first.erase(by_priority);
  own.newest_first.erase({key.priority, arrival});
  return place;
}

size_t WaitQueue::NumAhead(int32_t tenant) const {
  const auto own = lines_.find(tenants_.Group(tenant));
  return own == lines_.end() ? 0 : std::min(size(), own->second.at.size() * lines_.size());
}

std::vector<SequenceId> WaitQueue::FirstOf(const Line& line, size_t limit, bool newest_first) {
  std::vector<SequenceId> first;
  const auto add = [&](const std::pair<const Place, Standing>& entry) {
    const auto& [place, standing] = entry;
    const Own* const own = standing.has_started ? nullptr : &line.of_tenant.at(standing.tenant);
    if (own == nullptr || !own->has_exchanged) {
      first.push_back(place.second);
      return;
    }
    const RankedByPriority& ranked = newest_first ? own->newest_first : own->oldest_first;
    first.push_back(ranked.find_by_order(own->places.order_of_key(place))->second.second);
  };
  if (newest_first) {
    ForFirst(line.at.rbegin(), line.at.size(), limit, add);
  } else {
    ForFirst(line.at.begin(), line.at.size(), limit, add);
  }
  return first;
}

std::vector<SequenceId> WaitQueue::First(size_t limit, bool newest_first) const {
  const std::vector<int32_t> turns = tenants_.Turns(limit);
  if (turns.empty()) return {};
  // As many of each as could be wanted: with many turns, one or two.
  const size_t depth = (limit + turns.size() - 1) / turns.size();
  std::vector<std::vector<SequenceId>> lines;
  for (const int32_t group : turns) {
    // Those with few leave room for others' more, at most `limit` in all.
    lines.push_back(FirstOf(lines_.at(group), turns.size() == 1 ? limit : depth, newest_first));
  }
  std::vector<SequenceId> first;
  for (size_t round = 0; round < limit && first.size() < limit; ++round) {
    for (const std::vector<SequenceId>& line : lines) {
      if (round < line.size() && first.size() < limit) first.push_back(line[round]);
    }
  }
  return first;
}

std::optional<std::pair<TimePoint, SequenceId>> WaitQueue::Oldest() const {
  if (not_started_.empty()) return std::nullopt;
  return *not_started_.begin();
}

}  // namespace aril::scheduler

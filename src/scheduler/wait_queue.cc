#include "scheduler/wait_queue.h"

#include <algorithm>

#include "base/check.h"

namespace aril::scheduler {

void WaitQueue::Add(const QueueKey& key) {
  const int32_t group = tenants_.Group(key.tenant);
  Line& line = lines_[group];
  if (line.size == 0) tenants_.OnBacklogged(group);
  CHECK(line.by_priority[key.priority].emplace(key.arrival, key.sequence).second);
  ++line.size;
  if (!key.has_started) not_started_.emplace(key.arrival, key.sequence);
  ++size_;
}

void WaitQueue::Remove(const QueueKey& key) {
  const int32_t group = tenants_.Group(key.tenant);
  const auto found = lines_.find(group);
  CHECK(found != lines_.end());
  Line& line = found->second;
  const auto of_priority = line.by_priority.find(key.priority);
  CHECK(of_priority != line.by_priority.end());
  CHECK_EQ(of_priority->second.erase({key.arrival, key.sequence}), size_t{1});
  if (of_priority->second.empty()) line.by_priority.erase(of_priority);
  if (--line.size == 0) {
    lines_.erase(found);
    tenants_.OnEmpty(group);
  }
  not_started_.erase({key.arrival, key.sequence});
  --size_;
}

size_t WaitQueue::NumAhead(int32_t tenant) const {
  const auto own = lines_.find(tenants_.Group(tenant));
  return own == lines_.end() ? 0 : std::min(size_, own->second.size * lines_.size());
}

std::vector<SequenceId> WaitQueue::FirstOf(const Line& line, size_t limit, bool newest_first) {
  std::vector<SequenceId> first;
  for (const auto& [priority, by_arrival] : line.by_priority) {
    if (newest_first) {
      for (auto it = by_arrival.rbegin(); it != by_arrival.rend() && first.size() < limit; ++it) {
        first.push_back(it->second);
      }
    } else {
      for (auto it = by_arrival.begin(); it != by_arrival.end() && first.size() < limit; ++it) {
        first.push_back(it->second);
      }
    }
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

#include "scheduler/wait_queue.h"

#include <algorithm>
#include <cstddef>
#include <deque>

#include "base/check.h"

namespace aril::scheduler {
namespace {

// For at most `limit` of them, from one end or from the other.
template <typename Ordered, typename Use>
void ForFirst(const Ordered& ordered, size_t limit, bool from_end, const Use& use) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(limit, ordered.size()));
  if (from_end) {
    std::for_each_n(ordered.rbegin(), count, use);
  } else {
    std::for_each_n(ordered.begin(), count, use);
  }
}

}  // namespace

void WaitQueue::Add(const QueueKey& key) {
  const int32_t group = tenants_.Group(key.tenant);
  Line& line = lines_[group];
  if (line.tenant_at.empty()) tenants_.OnBacklogged(group);
  const Place place = {key.arrival, key.sequence};
  CHECK(line.tenant_at.emplace(place, key.tenant).second);
  CHECK(line.of_tenant[key.tenant][key.priority].insert(place).second);
  if (!key.has_started) not_started_.emplace(key.arrival, key.sequence);
  ++size_;
}

void WaitQueue::Remove(const QueueKey& key) {
  const int32_t group = tenants_.Group(key.tenant);
  const auto found = lines_.find(group);
  CHECK(found != lines_.end());
  Line& line = found->second;
  const Place place = {key.arrival, key.sequence};
  CHECK_EQ(line.tenant_at.erase(place), size_t{1});
  const auto own = line.of_tenant.find(key.tenant);
  CHECK(own != line.of_tenant.end());
  const auto of_priority = own->second.find(key.priority);
  CHECK(of_priority != own->second.end());
  CHECK_EQ(of_priority->second.erase(place), size_t{1});
  if (of_priority->second.empty()) own->second.erase(of_priority);
  if (own->second.empty()) line.of_tenant.erase(own);
  if (line.tenant_at.empty()) {
    lines_.erase(found);
    tenants_.OnEmpty(group);
  }
  not_started_.erase({key.arrival, key.sequence});
  --size_;
}

size_t WaitQueue::NumAhead(int32_t tenant) const {
  const auto own = lines_.find(tenants_.Group(tenant));
  return own == lines_.end() ? 0 : std::min(size_, own->second.tenant_at.size() * lines_.size());
}

std::vector<SequenceId> WaitQueue::FirstOf(const Line& line, size_t limit, bool newest_first) {
  std::vector<SequenceId> first;
  std::map<int32_t, std::deque<SequenceId>> reordered;  // of tenants, as far as they are asked for
  const auto add = [&](const std::pair<const Place, int32_t>& entry) {
    const auto& [place, tenant] = entry;
    const ByPriority& own = line.of_tenant.at(tenant);
    if (own.size() == 1) {
      first.push_back(place.second);
      return;
    }
    std::deque<SequenceId>& next = reordered[tenant];
    if (next.empty()) {
      for (const auto& [priority, by_arrival] : own) {
        ForFirst(by_arrival, limit - next.size(), newest_first,
                 [&](const Place& one) { next.push_back(one.second); });
      }
    }
    first.push_back(next.front());
    next.pop_front();
  };
  ForFirst(line.tenant_at, limit, newest_first, add);
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

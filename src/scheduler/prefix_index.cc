#include "scheduler/prefix_index.h"

#include <algorithm>

#include "base/mix64.h"

namespace aril::scheduler {

std::vector<wire::PrefixMark> PrefixIndex::KeysOf(int32_t tenant,
                                                  std::span<const wire::PrefixMark> marks) const {
  const uint64_t own = Mix64(secret_, static_cast<uint32_t>(tenant));
  std::vector<wire::PrefixMark> keys;
  keys.reserve(marks.size());
  for (const wire::PrefixMark mark : marks) keys.push_back(Mix64(own, mark));
  return keys;
}

// The shortest beginning is placed last: what is forgotten first of a prompt is its end, as it is
// in a runner's cache.
void PrefixIndex::Add(RunnerId id, int64_t max_tokens, std::span<const wire::PrefixMark> marks) {
  if (marks.empty()) return;
  const auto [it, is_new] = runners_.try_emplace(id);
  Runner& runner = it->second;
  runner.max_tokens = max_tokens;
  if (is_new) Reserve(runner);
  for (size_t i = marks.size(); i-- > 0;) {
    const int64_t before = i == 0 ? 0 : wire::PrefixDepth(i - 1);
    AddOne(id, runner, {.mark = marks[i], .num_tokens = wire::PrefixDepth(i) - before});
  }
  if (!is_new) return Trim(id, runner);
  for (auto& [each, its] : runners_) Trim(each, its);
}

// Whole tables are not to move within one decision.
void PrefixIndex::Reserve(Runner& runner) {
  holders_.reserve(max_marks_);
  const auto most = static_cast<size_t>(runner.max_tokens / wire::PrefixDepth(0));
  runner.by_mark.reserve(std::min(most, max_marks_ / runners_.size()) + wire::kMaxPrefixMarks);
}

void PrefixIndex::Trim(RunnerId id, Runner& runner) {
  const size_t even_part = max_marks_ / runners_.size();
  while (runner.num_tokens > runner.max_tokens || runner.by_use.size() > even_part) {
    Drop(id, runner, runner.by_use.begin());
  }
}

void PrefixIndex::AddOne(RunnerId id, Runner& runner, const Entry& entry) {
  Holders& holders = holders_[entry.mark];
  if (const auto known = runner.by_mark.find(entry.mark); known != runner.by_mark.end()) {
    runner.by_use.splice(runner.by_use.end(), runner.by_use, known->second);
    holders.Remove(id);
    holders.Append(id);
    return;
  }
  if (holders.size == kMaxHolders) {
    const RunnerId oldest = holders.ids.front();
    Runner& its = runners_.at(oldest);
    Drop(oldest, its, its.by_mark.at(entry.mark));
  }
  holders.Append(id);
  runner.by_mark[entry.mark] = runner.by_use.insert(runner.by_use.end(), entry);
  runner.num_tokens += entry.num_tokens;
  ++num_marks_;
}

void PrefixIndex::Holders::Remove(RunnerId id) {
  const auto end = std::remove(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(size), id);
  size = static_cast<size_t>(end - ids.begin());
}

void PrefixIndex::Drop(RunnerId id, Runner& runner, Entries::iterator entry) {
  const auto holders = holders_.find(entry->mark);
  holders->second.Remove(id);
  if (holders->second.size == 0) holders_.erase(holders);
  runner.num_tokens -= entry->num_tokens;
  runner.by_mark.erase(entry->mark);
  runner.by_use.erase(entry);
  --num_marks_;
}

void PrefixIndex::Forget(RunnerId id) {
  const auto found = runners_.find(id);
  if (found == runners_.end()) return;
  Runner& runner = found->second;
  while (!runner.by_use.empty()) Drop(id, runner, runner.by_use.begin());
  runners_.erase(found);
}

std::span<const RunnerId> PrefixIndex::HoldersOf(wire::PrefixMark mark) const {
  const auto found = holders_.find(mark);
  if (found == holders_.end()) return {};
  return std::span(found->second.ids).first(found->second.size);
}

int64_t PrefixIndex::TokensOn(RunnerId id, std::span<const wire::PrefixMark> marks) const {
  const auto found = runners_.find(id);
  if (found == runners_.end()) return 0;
  for (size_t i = marks.size(); i-- > 0;) {
    if (found->second.by_mark.contains(marks[i])) return wire::PrefixDepth(i);
  }
  return 0;
}

}  // namespace aril::scheduler

#include "scheduler/prefix_index.h"

#include <algorithm>

namespace aril::scheduler {

// The shortest beginning is placed last: what is forgotten first of a prompt is its end, as it is
// in a runner's cache.
void PrefixIndex::Add(RunnerId id, int64_t max_tokens, std::span<const wire::PrefixMark> marks) {
  if (marks.empty()) return;
  const auto [it, is_new] = runners_.try_emplace(id);
  Runner& runner = it->second;
  runner.max_tokens = max_tokens;
  for (size_t i = marks.size(); i-- > 0;) {
    const int64_t before = i == 0 ? 0 : wire::PrefixDepth(i - 1);
    AddOne(id, runner, {.mark = marks[i], .num_tokens = wire::PrefixDepth(i) - before});
  }
  if (!is_new) return Trim(id, runner);
  for (auto& [each, its] : runners_) Trim(each, its);
}

void PrefixIndex::Trim(RunnerId id, Runner& runner) {
  const size_t even_part = max_marks_ / runners_.size();
  while (runner.num_tokens > runner.max_tokens || runner.by_use.size() > even_part) {
    Drop(id, runner, runner.by_use.begin());
  }
}

void PrefixIndex::AddOne(RunnerId id, Runner& runner, const Entry& entry) {
  std::vector<RunnerId>& holders = holders_[entry.mark];
  if (const auto known = runner.by_mark.find(entry.mark); known != runner.by_mark.end()) {
    runner.by_use.splice(runner.by_use.end(), runner.by_use, known->second);
    const auto its = std::ranges::find(holders, id);
    std::rotate(its, its + 1, holders.end());
    return;
  }
  if (holders.size() == kMaxHolders) {
    Runner& oldest = runners_.at(holders.front());
    Drop(holders.front(), oldest, oldest.by_mark.at(entry.mark));
  }
  holders.push_back(id);
  runner.by_mark[entry.mark] = runner.by_use.insert(runner.by_use.end(), entry);
  runner.num_tokens += entry.num_tokens;
  ++num_marks_;
}

void PrefixIndex::Drop(RunnerId id, Runner& runner, Entries::iterator entry) {
  const auto holders = holders_.find(entry->mark);
  std::erase(holders->second, id);
  if (holders->second.empty()) holders_.erase(holders);
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
  return found == holders_.end() ? std::span<const RunnerId>() : found->second;
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

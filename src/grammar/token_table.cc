#include "grammar/token_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/strings.h"

namespace aril::grammar {
namespace {

// Of a walk over all tokens, for what it finds of the automaton (Automaton::Walk): some 30 ms. A
// string whose characters are counted takes 200,000, one that may be that of any of 20 schemas so
// many times as much; an expression can be made such that every token leads elsewhere, or every
// byte past thousands of nodes.
constexpr int64_t kMaxWork = 4'000'000;

// In a unit of work, beside that: tokens passed over, and bytes of those that are read.
constexpr int64_t kTokensPerWork = 16;
constexpr int64_t kBytesPerWork = 4;

Status TooManyWays() {
  return InvalidArgument(
      "the request's format leaves too many ways to go on; make its alternatives differ earlier");
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

TokenTable::TokenTable(std::span<const std::string> texts) : spans_(texts.size()) {
  std::vector<size_t> order;
  for (size_t t = 0; t < texts.size(); ++t) {
    const bool fits = texts[t].size() <= std::numeric_limits<uint16_t>::max();
    if (!texts[t].empty() && fits) order.push_back(t);
  }
  std::ranges::stable_sort(order, {}, [&](size_t t) -> std::string_view { return texts[t]; });
  std::string_view before;
  for (const size_t t : order) {
    const std::string& text = texts[t];
    spans_[t] = {static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(text.size())};
    entries_.push_back({.token = static_cast<int32_t>(t),
                        .length = static_cast<uint16_t>(text.size()),
                        .common = static_cast<uint16_t>(CommonPrefix(text, before))});
    texts_ += text;
    max_length_ = std::max(max_length_, text.size());
    before = text;
  }
}

std::string_view TokenTable::Text(int32_t token) const {
  const auto t = static_cast<size_t>(token);
  return t < spans_.size() ? TextOf(spans_[t]) : std::string_view();
}

StatusOr<TokenSet> TokenTable::TokensAt(Automaton& automaton, Automaton::State state,
                                        int64_t* work) const {
  const int64_t work_before = automaton.work();
  int64_t num_bytes = 0;
  StatusOr<TokenSet> set = Walk(automaton, state, &num_bytes);
  *work += automaton.work() - work_before + num_bytes / kBytesPerWork +
           std::ssize(entries_) / kTokensPerWork;
  return set;
}

StatusOr<TokenSet> TokenTable::Walk(Automaton& automaton, Automaton::State state,
                                    int64_t* num_bytes) const {
  TokenSet set((spans_.size() + 63) / 64);
  automaton.BeginWalk();
  int64_t work = 0;
  // path[i]: after the first i bytes of the entry's text, which are those of the ones before, up to
  // `alive`.
  std::vector<Automaton::State> path(max_length_ + 1);
  path[0] = state;
  size_t alive = 0;
  const char* text = texts_.data();
  for (const Entry& entry : entries_) {
    const char* const bytes = std::exchange(text, text + entry.length);
    if (entry.common > alive) continue;  // begins with what has been seen to be dead
    for (alive = entry.common; alive < entry.length; ++alive) {
      const auto next = automaton.Walk(path[alive], static_cast<uint8_t>(bytes[alive]), &work);
      if (next == Automaton::kTooManyWays || work > kMaxWork) return TooManyWays();
      if (next == Automaton::kDead) break;
      path[alive + 1] = next;
    }
    *num_bytes += static_cast<int64_t>(alive) - entry.common + 1;
    if (alive == entry.length) Insert(entry.token, &set);
  }
  return set;
}

}  // namespace aril::grammar

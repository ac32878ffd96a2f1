#include "grammar/token_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/strings.h"

namespace aril::grammar {
namespace {

// Of a walk over all tokens (Automaton::Visit): some 10 ms if nothing is known. Usual schemas take
// hundreds; an expression can be made such that every token leads elsewhere.
constexpr size_t kMaxWork = 200'000;

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

StatusOr<TokenSet> TokenTable::TokensAt(Automaton& automaton, Automaton::State state) const {
  TokenSet set((spans_.size() + 63) / 64);
  automaton.BeginWalk();
  size_t work = 0;
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
      const auto next = automaton.Next(path[alive], static_cast<uint8_t>(bytes[alive]));
      if (next == Automaton::kDead) break;
      if (next == Automaton::kTooManyWays) return TooManyWays();
      work += automaton.Visit(next);
      path[alive + 1] = next;
    }
    if (alive == entry.length) Insert(entry.token, &set);
    if (work > kMaxWork) return TooManyWays();
  }
  return set;
}

}  // namespace aril::grammar

// Which tokens may follow, by a grammar, found once for each state of its automaton.

#ifndef ARIL_GRAMMAR_TOKEN_AUTOMATON_H_
#define ARIL_GRAMMAR_TOKEN_AUTOMATON_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/token_table.h"

namespace aril::grammar {

// How many automata there are, which have kMaxBytes together. Thread-safe.
class AutomatonCount {
 public:
  static constexpr size_t kMaxBytes = size_t{512} << 20;

  void Add(int64_t more) { count_.fetch_add(more, std::memory_order_relaxed); }
  // What each may take: less than that of sets, and of states.
  size_t MaxBytesOfEach() const {
    return kMaxBytes / 2 / static_cast<size_t>(std::max<int64_t>(1, count_.load(kAnyOrder)));
  }

 private:
  static constexpr auto kAnyOrder = std::memory_order_relaxed;
  std::atomic<int64_t> count_ = 0;
};

// Shared by the sequences of one format, and used by one thread at a time.
class TokenAutomaton {
 public:
  // What sets, and states, may take before they are forgotten, and found again when they are
  // wanted: so much, or its part of what all may take.
  static constexpr size_t kMaxSetBytes = size_t{8} << 20;
  static constexpr size_t kMaxStateBytes = size_t{8} << 20;

  // The table must outlive it. `count`: those that share the memory.
  TokenAutomaton(Grammar grammar, const TokenTable& table,
                 std::shared_ptr<AutomatonCount> count = std::make_shared<AutomatonCount>())
      : automaton_(std::move(grammar)), table_(table), count_(std::move(count)) {
    count_->Add(1);
  }
  ~TokenAutomaton() { count_->Add(-1); }
  TokenAutomaton(const TokenAutomaton&) = delete;
  TokenAutomaton& operator=(const TokenAutomaton&) = delete;

  const TokenTable& table() const { return table_; }
  Automaton& automaton() { return automaton_; }
  // Which tokens may follow. The errors of TokenTable::TokensAt.
  StatusOr<const TokenSet*> TokensAt(Automaton::State state);
  // Forgets what has grown too large, but for the positions below, which get new states.
  void Bound();
  // Where a sequence stands; until Remove, which comes before it goes.
  void Add(Automaton::State* position) { positions_.insert(position); }
  void Remove(Automaton::State* position) { positions_.erase(position); }

 private:
  Automaton automaton_;
  const TokenTable& table_;
  const std::shared_ptr<AutomatonCount> count_;
  std::set<Automaton::State*> positions_;
  std::unordered_map<Automaton::State, TokenSet> sets_;
  size_t set_bytes_ = 0;
};

// One sequence's way through it. Not thread-safe.
class TokenMatcher {
 public:
  // An error is what Allowed will say.
  explicit TokenMatcher(StatusOr<std::shared_ptr<TokenAutomaton>> automaton);
  TokenMatcher(const TokenMatcher&) = delete;
  TokenMatcher& operator=(const TokenMatcher&) = delete;
  ~TokenMatcher();

  // What it shares with others; null if there is an error.
  const TokenAutomaton* automaton() const { return automaton_.get(); }
  // The sequence goes on with this token. InvalidArgument if it may not.
  Status Accept(int32_t token);
  // Whether the text is complete and nothing can follow: the sequence has ended.
  bool HasEnded() const;
  // The tokens that may follow; of a complete text, `stop_tokens` among them. InvalidArgument if
  // there are none, or there are too many ways to find them.
  StatusOr<TokenSet> Allowed(std::span<const int32_t> stop_tokens);

 private:
  std::shared_ptr<TokenAutomaton> automaton_;
  Automaton::State state_ = Automaton::kDead;
  int64_t num_bytes_ = 0;  // of the text so far
  Status status_;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_TOKEN_AUTOMATON_H_

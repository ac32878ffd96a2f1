// Which tokens may follow, by a grammar, found once for each state of its automaton.

#ifndef ARIL_GRAMMAR_TOKEN_AUTOMATON_H_
#define ARIL_GRAMMAR_TOKEN_AUTOMATON_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/token_table.h"

namespace aril::grammar {

// What all formats of a server take. Thread-safe.
class FormatMemory {
 public:
  // Of states and of sets of tokens, together.
  static constexpr size_t kMaxBytes = size_t{512} << 20;
  // Of grammars, of sequences that wait as well.
  static constexpr size_t kMaxGrammarBytes = size_t{256} << 20;

  explicit FormatMemory(size_t max_grammar_bytes = kMaxGrammarBytes)
      : max_grammar_bytes_(max_grammar_bytes) {}

  // Automata that have begun to take states and sets.
  void AddAutomata(int64_t more) { num_automata_.fetch_add(more, kAnyOrder); }
  // What each may take: less than that of sets, and of states.
  size_t MaxBytesOfEach() const {
    return kMaxBytes / 2 / static_cast<size_t>(std::max<int64_t>(1, num_automata_.load(kAnyOrder)));
  }
  void AddGrammarBytes(int64_t more) { grammar_bytes_.fetch_add(more, kAnyOrder); }
  bool HasRoomForGrammar(size_t bytes) const {
    return static_cast<size_t>(grammar_bytes_.load(kAnyOrder)) + bytes <= max_grammar_bytes_;
  }

 private:
  static constexpr auto kAnyOrder = std::memory_order_relaxed;
  const size_t max_grammar_bytes_;
  std::atomic<int64_t> num_automata_ = 0;
  std::atomic<int64_t> grammar_bytes_ = 0;
};

// Shared by the sequences of one format, and used by one thread at a time.
class TokenAutomaton {
 public:
  // What sets, and states, may take before they are forgotten, and found again when they are
  // wanted: so much, or its part of what all may take.
  static constexpr size_t kMaxSetBytes = size_t{8} << 20;
  static constexpr size_t kMaxStateBytes = size_t{8} << 20;

  // The table must outlive it. `memory`: of those that share it.
  TokenAutomaton(Grammar grammar, const TokenTable& table,
                 std::shared_ptr<FormatMemory> memory = std::make_shared<FormatMemory>());
  ~TokenAutomaton();
  TokenAutomaton(const TokenAutomaton&) = delete;
  TokenAutomaton& operator=(const TokenAutomaton&) = delete;

  const TokenTable& table() const { return table_; }
  Automaton& automaton() { return automaton_; }
  // Whether it is known which tokens may follow.
  bool KnowsTokensAt(Automaton::State state) const { return sets_.contains(state); }
  // Which tokens may follow. The errors of TokenTable::TokensAt, and its `*work`.
  StatusOr<const TokenSet*> TokensAt(Automaton::State state, int64_t* work);
  // Forgets what has grown too large, but for the positions below, which get new states. Between
  // Find and Accept of a sequence it would only make work.
  void Bound();
  // Where a sequence stands; until Remove, which comes before it goes.
  void Add(Automaton::State* position);
  void Remove(Automaton::State* position) { positions_.erase(position); }

 private:
  Automaton automaton_;
  const TokenTable& table_;
  const std::shared_ptr<FormatMemory> memory_;
  const int64_t grammar_bytes_;
  bool has_begun_ = false;
  std::set<Automaton::State*> positions_;
  std::unordered_map<Automaton::State, TokenSet> sets_;
  size_t set_bytes_ = 0;
};

// One sequence's way through it. Which tokens may follow is found (Find) before it is asked for
// (TakeAllowed), and perhaps in several goes: it can take longer than whoever waits for it has.
// Used by one thread at a time, and by none beside another matcher of the same automaton.
class TokenMatcher {
 public:
  // Behind these tokens, which Find reads.
  explicit TokenMatcher(std::shared_ptr<TokenAutomaton> automaton,
                        std::span<const int32_t> tokens = {});
  TokenMatcher(const TokenMatcher&) = delete;
  TokenMatcher& operator=(const TokenMatcher&) = delete;
  ~TokenMatcher();

  // What it shares with others.
  TokenAutomaton& automaton() const { return *automaton_; }
  // Whether TakeAllowed can say it.
  bool HasFound() const { return !status_.ok() || found_.has_value(); }
  // Whether Find would have found it at once: others have been here.
  bool FindsAtOnce() const;
  // Goes on until it is found, or `*work`, from which it takes what it does (Automaton::Walk), is
  // used up: a token of the text, or a state's tokens, may take more than is left.
  void Find(int64_t* work);
  // The tokens that may follow, once they are found; of a complete text, `stop_tokens` among them,
  // which lie in a vocabulary, if not in the table's. InvalidArgument if there are none, or there
  // are too many ways to find them. Takes them away.
  StatusOr<TokenSet> TakeAllowed(std::span<const int32_t> stop_tokens);
  // What TakeAllowed would say behind the first of these tokens, behind the first two, and so on,
  // as far as they may follow, Find would find it at once, and `*work` reaches. Empty where it has
  // not read what is before.
  std::vector<StatusOr<TokenSet>> LookAhead(std::span<const int32_t> tokens,
                                            std::span<const int32_t> stop_tokens,
                                            int64_t* work) const;
  // How many that would be.
  int64_t CountAhead(std::span<const int32_t> tokens, int64_t* work) const;
  // The sequence goes on with this token; InvalidArgument if it may not. Reads what Find has not
  // read of the text before.
  Status Accept(int32_t token);
  // Whether the text is complete and nothing can follow: the sequence has ended.
  bool HasEnded() const;

 private:
  void Begin();
  // A token of those that are unread. Returns the work.
  int64_t ReadNext();
  // Behind the token's text; no state if it may not follow.
  Automaton::State Behind(Automaton::State state, int32_t token) const;
  std::vector<Automaton::State> StatesAhead(std::span<const int32_t> tokens, int64_t* work) const;
  // At a state at which `found` may follow, and of a complete text one of `stop_tokens`.
  StatusOr<TokenSet> AllowedAt(Automaton::State state, TokenSet found, int64_t num_bytes,
                               std::span<const int32_t> stop_tokens) const;

  std::shared_ptr<TokenAutomaton> automaton_;
  bool has_begun_ = false;
  std::deque<int32_t> unread_;
  Automaton::State state_ = Automaton::kDead;
  std::optional<TokenSet> found_;
  int64_t num_bytes_ = 0;  // of the text so far
  Status status_;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_TOKEN_AUTOMATON_H_

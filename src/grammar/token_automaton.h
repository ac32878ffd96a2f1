// Which tokens may follow, by a grammar, found once for each state of its automaton.

#ifndef ARIL_GRAMMAR_TOKEN_AUTOMATON_H_
#define ARIL_GRAMMAR_TOKEN_AUTOMATON_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/token_table.h"

namespace aril::grammar {

// Shared by the sequences of one format, and used by one thread at a time.
class TokenAutomaton {
 public:
  // What sets may take before they are forgotten, and found again when they are wanted.
  static constexpr size_t kMaxSetBytes = size_t{8} << 20;
  // The same of states, at first. Then twice as much, up to the last: of a long text whose every
  // byte leads to a new state (one that counts them) all would be found again at every token.
  static constexpr size_t kMinStateBytes = size_t{4} << 20;
  static constexpr size_t kMaxStateBytes = size_t{64} << 20;

  // The table must outlive it.
  TokenAutomaton(Grammar grammar, const TokenTable& table)
      : grammar_(std::move(grammar)), table_(table) {
    automaton_.emplace(grammar_);
  }

  const TokenTable& table() const { return table_; }
  Automaton& automaton() { return *automaton_; }
  // Grows when states are forgotten: those of earlier epochs mean nothing.
  int64_t epoch() const { return epoch_; }
  // Forgets what has grown too large.
  void Bound();
  // Which tokens may follow. The errors of TokenTable::TokensAt.
  StatusOr<const TokenSet*> TokensAt(Automaton::State state);

 private:
  const Grammar grammar_;
  const TokenTable& table_;
  std::optional<Automaton> automaton_;
  std::unordered_map<Automaton::State, TokenSet> sets_;
  size_t set_bytes_ = 0;
  size_t max_state_bytes_ = kMinStateBytes;
  int64_t epoch_ = 0;
};

// One sequence's way through it. Not thread-safe.
class TokenMatcher {
 public:
  // An error is what Allowed will say.
  explicit TokenMatcher(StatusOr<std::shared_ptr<TokenAutomaton>> automaton);

  // What it shares with others; null if there is an error.
  const TokenAutomaton* automaton() const { return automaton_.get(); }
  // The sequence goes on with this token. InvalidArgument if it may not.
  Status Accept(int32_t token);
  // Whether the text is complete and nothing can follow: the sequence has ended.
  bool HasEnded();
  // The tokens that may follow; of a complete text, `stop_tokens` among them. InvalidArgument if
  // there are none; ResourceExhausted if the format cannot be kept to.
  StatusOr<TokenSet> Allowed(std::span<const int32_t> stop_tokens);

 private:
  // Its state, found again if it has been forgotten.
  Automaton::State Current();

  std::shared_ptr<TokenAutomaton> automaton_;
  std::string text_;  // so far
  Automaton::State state_ = Automaton::kDead;
  int64_t epoch_ = -1;
  Status status_;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_TOKEN_AUTOMATON_H_

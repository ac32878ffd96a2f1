// Texts read by automata, and written by them, for tests and benchmarks.

#ifndef ARIL_GRAMMAR_TEST_SUPPORT_H_
#define ARIL_GRAMMAR_TEST_SUPPORT_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/automaton.h"
#include "grammar/token_automaton.h"
#include "grammar/token_table.h"

namespace aril::grammar {

// The state behind a text, if it is one.
inline Automaton::State Read(Automaton& automaton, std::string_view text) {
  Automaton::State state = automaton.start();
  for (const char byte : text) {
    if (!Automaton::IsState(state)) break;
    state = automaton.Next(state, static_cast<uint8_t>(byte));
  }
  return state;
}

inline bool Accepts(Automaton& automaton, std::string_view text) {
  const Automaton::State state = Read(automaton, text);
  return Automaton::IsState(state) && automaton.IsComplete(state);
}

// A text that the automaton allows, one byte after the other; nullopt if it is not complete by
// `max_bytes`.
inline std::optional<std::string> RandomText(Automaton& automaton, std::mt19937_64& random,
                                             size_t max_bytes) {
  std::string text;
  Automaton::State state = automaton.start();
  while (true) {
    const bool is_complete = automaton.IsComplete(state);
    if (is_complete && (!automaton.HasNext(state) || random() % 4 == 0)) return text;
    if (text.size() == max_bytes) return std::nullopt;
    std::vector<int> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      if (Automaton::IsState(automaton.Next(state, static_cast<uint8_t>(byte))))
        bytes.push_back(byte);
    }
    if (bytes.empty()) return std::nullopt;
    const int byte = bytes[random() % bytes.size()];
    text.push_back(static_cast<char>(byte));
    state = automaton.Next(state, static_cast<uint8_t>(byte));
  }
}

// What may follow, however long it takes.
inline StatusOr<TokenSet> FindAllowed(TokenMatcher& matcher, int32_t stop_token) {
  int64_t work = std::numeric_limits<int64_t>::max();
  matcher.Find(&work);
  return matcher.TakeAllowed({&stop_token, 1});
}

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_TEST_SUPPORT_H_

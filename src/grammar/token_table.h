// The texts of a vocabulary's tokens, in the order in which an automaton reads them with the least
// work.

#ifndef ARIL_GRAMMAR_TOKEN_TABLE_H_
#define ARIL_GRAMMAR_TOKEN_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/automaton.h"

namespace aril::grammar {

// Bit t % 64 of word t / 64 says whether token t is in the set.
using TokenSet = std::vector<uint64_t>;

inline bool Contains(std::span<const uint64_t> set, int32_t token) {
  const auto t = static_cast<size_t>(token);
  return t / 64 < set.size() && (set[t / 64] >> (t % 64) & 1) != 0;
}

inline void Insert(int32_t token, TokenSet* set) {
  const auto t = static_cast<size_t>(token);
  (*set)[t / 64] |= uint64_t{1} << (t % 64);
}

// What a special token adds to a text, for grammars that name it: its own text between two bytes
// that are in no valid UTF-8, so that it comes nowhere else, and none begins another.
inline constexpr uint8_t kSpecialTokenByte = 0xFF;
inline std::string SpecialTokenText(std::string_view text) {
  constexpr char kMark = static_cast<char>(kSpecialTokenByte);
  return kMark + std::string(text) + kMark;
}

// Immutable; thread-safe.
class TokenTable {
 public:
  // `texts[t]`: the bytes that token t adds to a text. Those that add none are in no set, nor are
  // those of more than 65,535 bytes.
  explicit TokenTable(std::span<const std::string> texts);

  int64_t size() const { return static_cast<int64_t>(spans_.size()); }
  // Of ids outside of the table: empty.
  std::string_view Text(int32_t token) const;

  // The tokens whose whole text may follow at `state`. InvalidArgument if there are too many ways
  // to find that out: the same for each text, whatever the automaton knows already. Adds what it
  // took to `*work` (Automaton::Walk), which is less if more is known.
  StatusOr<TokenSet> TokensAt(Automaton& automaton, Automaton::State state, int64_t* work) const;

 private:
  StatusOr<TokenSet> Walk(Automaton& automaton, Automaton::State state, int64_t* num_bytes) const;
  // Of a text in texts_.
  struct Span {
    uint32_t offset = 0;
    uint32_t length = 0;
  };
  struct Entry {
    int32_t token = 0;
    uint16_t length = 0;  // of its text, which is behind those of the entries before
    uint16_t common = 0;  // of that, what the text of the entry before begins with as well
  };
  std::string_view TextOf(const Span& span) const {
    return std::string_view(texts_).substr(span.offset, span.length);
  }

  std::string texts_;           // sorted, so that reading them all is reading on
  std::vector<Span> spans_;     // by token
  std::vector<Entry> entries_;  // of tokens with a text, sorted by it
  size_t max_length_ = 0;       // of a text
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_TOKEN_TABLE_H_

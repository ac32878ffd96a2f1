// Text of which nothing is known but what it ends at, special tokens in it.

#ifndef ARIL_GRAMMAR_FREE_TEXT_H_
#define ARIL_GRAMMAR_FREE_TEXT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace aril::grammar {

// U+FFFF, which no text has: stands before and behind each special token, where in the grammar
// kSpecialTokenByte does (token_table.h).
inline constexpr std::string_view kSpecialTokenMark = "\xEF\xBF\xBF";

inline constexpr std::string_view kSpaces = " \t\r\n";
// Of these around what is set apart from text.
inline constexpr int64_t kMaxSpaces = 4;

// With the bytes of special tokens in place of their marks, and without either.
std::string WithSpecialBytes(std::string_view text);
std::string WithoutSpecialMarks(std::string_view text);
// What stands between two marks; nothing if there are half, or empty, special tokens.
std::optional<std::vector<std::string>> SpecialTokensIn(std::string_view text);
// A text without special tokens, or one that begins with one of them.
bool IsMarker(std::string_view text);

// Adds such text to a grammar. Not thread-safe; the builder must outlive it.
class FreeText {
 public:
  using Targets = std::map<uint8_t, NodeIdx>;

  // `own`: the special tokens that are not a part of the text, without marks.
  FreeText(GrammarBuilder& builder, std::set<std::string> own)
      : builder_(builder), own_(std::move(own)) {}
  // Text without special tokens, but for those of a marker.
  explicit FreeText(GrammarBuilder& builder) : builder_(builder) {}

  // Text, then `marker` with what is `behind` it, which comes there and nowhere else; or, if the
  // text `may_end`, nothing. Special tokens of the marker are among one's own. The text does not
  // begin with `unlike`, if that is not empty, nor with that behind up to kMaxSpaces.
  NodeIdx Until(std::string_view marker, bool may_end, NodeIdx behind,
                std::string_view unlike = "");
  // One byte of text, to its target or else to `other`; or a special token, to `behind_special`.
  NodeIdx Step(const Targets& targets, NodeIdx other, NodeIdx behind_special);
  // Up to kMaxSpaces.
  NodeIdx Spaces(NodeIdx next);

 private:
  NodeIdx OtherSpecialToken();
  NodeIdx SpecialTokenBesides(const std::set<std::string>& own, size_t at, NodeIdx rest);
  NodeIdx ByteOr(int first, int last, NodeIdx next, NodeIdx or_else);
  NodeIdx SpecialByte(NodeIdx next);

  GrammarBuilder& builder_;
  const std::optional<std::set<std::string>> own_;
  std::optional<NodeIdx> other_special_;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_FREE_TEXT_H_

#include "tokenizer/sentencepiece_normalizer.h"

#include "base/utf8.h"

namespace aril {

// The bytes of what is normalized as one: a user-defined word or a code point.
size_t SentencePieceNormalizer::UnitBytes(const std::string& text, size_t pos) const {
  const size_t word_bytes = user_defined_.LongestAt(text, pos).size_bytes;
  return word_bytes > 0 ? word_bytes : ReadUtf8(text, pos).size_bytes;
}

void SentencePieceNormalizer::AppendUnit(std::string_view unit, std::string* out) const {
  for (const char c : unit) {
    if (c == ' ' && options_.escape_whitespaces) {
      *out += kSentencePieceSpace;
    } else {
      out->push_back(c);
    }
  }
}

std::string SentencePieceNormalizer::Normalize(std::string text, bool starts_text) const {
  const bool collapse = options_.remove_extra_whitespaces;
  size_t pos = 0;
  while (collapse && pos < text.size() && text[pos] == ' ' && UnitBytes(text, pos) == 1) ++pos;
  std::string out;
  if (pos == text.size()) return out;
  out.reserve(text.size() + text.size() / 2);
  if (options_.add_dummy_prefix && (starts_text || options_.prefix_every_text)) {
    AppendUnit(" ", &out);
  }
  bool after_space = collapse;
  while (pos < text.size()) {
    std::string_view unit(text.data() + pos, UnitBytes(text, pos));
    pos += unit.size();
    while (after_space && unit.starts_with(' ')) unit.remove_prefix(1);
    if (unit.empty()) continue;
    AppendUnit(unit, &out);
    after_space = collapse && unit.ends_with(' ');
  }
  const std::string_view space = options_.escape_whitespaces ? kSentencePieceSpace : " ";
  while (collapse && out.ends_with(space)) out.resize(out.size() - space.size());
  return out;
}

}  // namespace aril

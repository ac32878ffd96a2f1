// sentencepiece's own normalizer: white space becomes "▁".

#ifndef ARIL_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_
#define ARIL_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_

#include <string>
#include <utility>

#include "tokenizer/normalizer.h"
#include "tokenizer/prefix_matcher.h"

namespace aril {

// "▁", U+2581 LOWER ONE EIGHTH BLOCK, which stands for a space in pieces.
inline constexpr char kSentencePieceSpace[] = "\xE2\x96\x81";

// Follows Normalizer::Normalize of sentencepiece's src/normalizer.cc.
class SentencePieceNormalizer : public Normalizer {
 public:
  struct Options {
    bool add_dummy_prefix = true;
    // The dummy prefix goes before every text between special tokens, not only before the first.
    bool prefix_every_text = false;
    bool remove_extra_whitespaces = true;
    bool escape_whitespaces = true;
  };

  // `user_defined`: words that white space removal does not look into.
  SentencePieceNormalizer(const Options& options, PrefixMatcher user_defined)
      : options_(options), user_defined_(std::move(user_defined)) {}

  std::string Normalize(std::string text, bool starts_text) const override;

 private:
  size_t UnitBytes(const std::string& text, size_t pos) const;
  void AppendUnit(std::string_view unit, std::string* out) const;

  const Options options_;
  const PrefixMatcher user_defined_;
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_

// Normalizers: what a tokenizer does to a text before it looks for words.

#ifndef ARIL_TOKENIZER_NORMALIZER_H_
#define ARIL_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace aril {

// Immutable and thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text` is valid UTF-8 and stays so. `starts_text`: it begins what the user wrote, as opposed to
  // following an added token.
  virtual std::string Normalize(std::string text, bool starts_text) const = 0;
};

// Reads the `normalizer` of a tokenizer.json, which `where` names in errors. Null gives one that
// changes nothing. Implemented: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip,
// Replace, Prepend, ByteLevel; any other type is Unimplemented.
StatusOr<std::unique_ptr<Normalizer>> ReadNormalizer(const Json& json, const std::string& where);

}  // namespace aril

#endif  // ARIL_TOKENIZER_NORMALIZER_H_

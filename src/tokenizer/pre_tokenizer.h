// Pre-tokenizers: they cut a normalized text into the words that the model encodes one by one.

#ifndef ARIL_TOKENIZER_PRE_TOKENIZER_H_
#define ARIL_TOKENIZER_PRE_TOKENIZER_H_

#include <memory>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/pieces.h"

namespace aril {

// Immutable and thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts or rewrites the pieces in place.
  virtual void Apply(Pieces* pieces) const = 0;
};

// Reads the `pre_tokenizer` of a tokenizer.json, which `where` names in errors. Null gives one that
// leaves the text whole. Implemented: Sequence, ByteLevel, Metaspace, Split, Digits, Punctuation,
// Whitespace, WhitespaceSplit, CharDelimiterSplit; any other type is Unimplemented.
StatusOr<std::unique_ptr<PreTokenizer>> ReadPreTokenizer(const Json& json,
                                                         const std::string& where);

}  // namespace aril

#endif  // ARIL_TOKENIZER_PRE_TOKENIZER_H_

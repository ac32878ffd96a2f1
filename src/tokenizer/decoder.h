// Decoders: from the token of an id to the bytes it adds to the text.

#ifndef ARIL_TOKENIZER_DECODER_H_
#define ARIL_TOKENIZER_DECODER_H_

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace aril {

// Hugging Face's decoders see all tokens of a text at once; a server sees one after the other. So a
// chain is accepted only if each token's bytes depend on that token alone and on whether it is the
// first one. That holds for what real models use. Immutable and thread-safe.
class Decoder {
 public:
  // Changes a token in place; `is_first`: it begins the text.
  using Step = std::function<void(bool is_first, std::string* token)>;

  explicit Decoder(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // The bytes of `token`; not always valid UTF-8 by themselves.
  std::string Decode(std::string token, bool is_first) const;

 private:
  std::vector<Step> steps_;
};

// Reads the `decoder` of a tokenizer.json, which `where` names in errors. Null joins tokens with
// spaces, as the reference does. Implemented: Sequence, ByteLevel, ByteFallback, Fuse, Metaspace,
// Replace, Strip; other types, and combinations that look beyond one token, are Unimplemented.
StatusOr<Decoder> ReadDecoder(const Json& json, const std::string& where);

// Steps shared with the other kinds of files.

// "<0x0A>" becomes its byte.
void DecodeByteFallback(bool is_first, std::string* token);
// Tokens spelled in GPT-2's alphabet become their bytes; others stay as they are.
void DecodeByteLevel(bool is_first, std::string* token);

}  // namespace aril

#endif  // ARIL_TOKENIZER_DECODER_H_

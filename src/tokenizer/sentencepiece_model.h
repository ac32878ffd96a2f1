// tokenizer.model of sentencepiece, of model type BPE.

#ifndef ARIL_TOKENIZER_SENTENCEPIECE_MODEL_H_
#define ARIL_TOKENIZER_SENTENCEPIECE_MODEL_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer_config.h"

namespace aril {

// Builds a tokenizer from the bytes of a tokenizer.model; `path` names it in errors. Encodes as
// sentencepiece does, for text without special tokens; these, where they are parsed, are taken out
// first, and the dummy prefix goes before what the text begins with (before every text between
// special tokens if the config says "legacy": true). BOS is added unless the config says otherwise.
//
// Unimplemented: Unigram, word and character models, normalization rules (precompiled_charsmap),
// treat_whitespace_as_suffix, denormalizers, unused pieces.
StatusOr<std::unique_ptr<PipelineTokenizer>> ParseSentencePieceModel(std::string_view file,
                                                                     const std::string& path,
                                                                     const TokenizerConfig& config);

}  // namespace aril

#endif  // ARIL_TOKENIZER_SENTENCEPIECE_MODEL_H_

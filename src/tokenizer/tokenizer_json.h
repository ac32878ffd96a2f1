// tokenizer.json, the file of Hugging Face's `tokenizers` library.

#ifndef ARIL_TOKENIZER_TOKENIZER_JSON_H_
#define ARIL_TOKENIZER_TOKENIZER_JSON_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/bpe_json.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer_config.h"

namespace aril {

// The largest in use (Gemma 3's) has 33 MB.
inline constexpr size_t kMaxTokenizerFileBytes = 64 << 20;
// Gemma 3's has some 1.8 million values: 262,000 tokens, and half a million merges of three each.
inline constexpr JsonLimits kTokenizerFileLimits = {.max_bytes = kMaxTokenizerFileBytes,
                                                    .max_values = 8'000'000};

// Builds a tokenizer from the text of a tokenizer.json. `path` names it in errors. Components that
// are not implemented are Unimplemented, by name and place.
StatusOr<std::unique_ptr<PipelineTokenizer>> ParseTokenizerJson(std::string_view text,
                                                                const std::string& path,
                                                                const TokenizerConfig& config);

// Builds a tokenizer from the components of a tokenizer.json (`fields`) around a model that has
// been read already.
StatusOr<std::unique_ptr<PipelineTokenizer>> AssembleTokenizer(const JsonFields& fields,
                                                               BpeWithVocabulary bpe,
                                                               const TokenizerConfig& config);

}  // namespace aril

#endif  // ARIL_TOKENIZER_TOKENIZER_JSON_H_

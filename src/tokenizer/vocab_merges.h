// vocab.json + merges.txt, the files of GPT-2 and its descendants before tokenizer.json.

#ifndef ARIL_TOKENIZER_VOCAB_MERGES_H_
#define ARIL_TOKENIZER_VOCAB_MERGES_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer_config.h"

namespace aril {

// Builds a tokenizer from the texts of the two files; the paths name them in errors. How words are
// cut is not in them: it follows from the config's tokenizer_class, as in `transformers`. Classes
// other than GPT2Tokenizer and Qwen2Tokenizer (also with the suffix Fast) are Unimplemented.
StatusOr<std::unique_ptr<PipelineTokenizer>> ParseVocabMerges(std::string_view vocab,
                                                              const std::string& vocab_path,
                                                              std::string_view merges,
                                                              const std::string& merges_path,
                                                              const TokenizerConfig& config);

}  // namespace aril

#endif  // ARIL_TOKENIZER_VOCAB_MERGES_H_

// tokenizer.model in tiktoken's format, as Meta ships Llama 3: lines of "<base64 of a token>
// <rank>".

#ifndef ARIL_TOKENIZER_TIKTOKEN_H_
#define ARIL_TOKENIZER_TIKTOKEN_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer_config.h"

namespace aril {

// Whether a tokenizer.model is of this format, going by its first line.
bool LooksLikeTiktoken(std::string_view file);

// Builds a tokenizer from the text of such a file; `path` names it in errors. The format holds
// neither special tokens nor how words are cut: the former come from the config, which must have
// some, the latter is Llama 3's regex, as in the converter of `transformers`. The BOS token that
// the config names is added unless it says otherwise.
StatusOr<std::unique_ptr<PipelineTokenizer>> ParseTiktoken(std::string_view file,
                                                           const std::string& path,
                                                           const TokenizerConfig& config);

}  // namespace aril

#endif  // ARIL_TOKENIZER_TIKTOKEN_H_

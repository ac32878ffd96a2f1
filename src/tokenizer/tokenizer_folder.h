// The tokenizer in a model's folder, and what an adapter's folder changes of it.

#ifndef ARIL_TOKENIZER_TOKENIZER_FOLDER_H_
#define ARIL_TOKENIZER_TOKENIZER_FOLDER_H_

#include <memory>
#include <optional>
#include <string>

#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer_changes.h"

namespace aril {

// Loads `tokenizer.json` if it is there, else `tokenizer.model` (sentencepiece's or tiktoken's
// format), else `vocab.json` and `merges.txt`; `tokenizer_config.json` and `added_tokens.json`
// refine them. What a file asks for and Aril does not implement is refused, naming the component.
StatusOr<std::unique_ptr<PipelineTokenizer>> LoadTokenizer(const std::string& model_dir);

// Whether an adapter's tokenizer.json counts: a tokenizer_config.json lies beside it, and does not
// list added tokens, as transformers 4.34 to 4.57 has it do. Without the latter the adapter has no
// tokenizer, as in PEFT (peft, auto.py). False also for a file that cannot be read.
bool NeedsTokenizerJson(const Folder& dir);

// The files of an adapter's tokenizer, as far as they count.
struct AdapterTokenizerFiles {
  std::string config_path;
  std::string json_path;
  std::optional<Json> config;
  std::optional<std::string> json;  // not parsed
};
StatusOr<AdapterTokenizerFiles> ReadAdapterTokenizer(const Folder& dir);

// What they change. Errors are those of ChangesBy, and of reading what is in them.
StatusOr<TokenizerChanges> ChangesIn(const AdapterTokenizerFiles& files,
                                     const PipelineTokenizer& base);

}  // namespace aril

#endif  // ARIL_TOKENIZER_TOKENIZER_FOLDER_H_

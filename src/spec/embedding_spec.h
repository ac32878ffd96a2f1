// What a model's embeddings of texts are: what sentence-transformers' files in its folder say.

#ifndef ARIL_SPEC_EMBEDDING_SPEC_H_
#define ARIL_SPEC_EMBEDDING_SPEC_H_

#include <functional>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace aril {

// The last hidden state of the last token, divided by its length or as it is.
struct EmbeddingSpec {
  bool normalize = true;
};

// Of a model's folder. Without a modules.json it is that of a language model, whose embeddings are
// normalized, as in vLLM and llama.cpp's server. Unimplemented names the module or the field that
// asks for something else (the mean of all tokens, a layer behind it, ...).
StatusOr<EmbeddingSpec> LoadEmbeddingSpec(const std::string& model_dir);

// The same of modules.json and the files beside it: the object in one, by its path in the folder;
// NotFound if there is none.
using ReadConfig = std::function<StatusOr<Json>(const std::string& path)>;
StatusOr<EmbeddingSpec> ParseEmbeddingSpec(const Json& modules, const ReadConfig& read);

}  // namespace aril

#endif  // ARIL_SPEC_EMBEDDING_SPEC_H_

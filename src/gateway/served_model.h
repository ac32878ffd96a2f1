// What requests are checked against and answered with.

#ifndef ARIL_GATEWAY_SERVED_MODEL_H_
#define ARIL_GATEWAY_SERVED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "catalog/catalog.h"
#include "gateway/model_text.h"
#include "grammar/compile.h"
#include "spec/embedding_spec.h"
#include "spec/generation_config.h"
#include "spec/model_spec.h"
#include "wire/output_format.h"

namespace aril::gateway {

// Immutable while it is served, but for the adapters; thread-safe.
struct ServedModel {
  ModelSpec spec;
  GenerationDefaults generation_defaults;  // of requests
  // An error is what a request for embeddings is answered with.
  StatusOr<EmbeddingSpec> embedding = EmbeddingSpec();
  ModelTextPtr text;  // of the base model
  std::shared_ptr<AdapterTexts> adapter_texts = std::make_shared<AdapterTexts>();
  std::shared_ptr<Catalog> catalog;
  // Whether an output can be kept to a format; else what is wrong with it. Thread-safe.
  std::function<Status(const wire::OutputFormat&)> check_format =
      [](const wire::OutputFormat& format) { return grammar::Compile(format).status(); };
  int64_t max_model_len = 0;  // tokens of prompt and output together
  int64_t created = 0;        // Unix seconds

  // For requests to an adapter or to the base model.
  ModelTextPtr TextOf(AdapterId adapter) const {
    ModelTextPtr own = adapter_texts->Find(adapter);
    return own == nullptr ? text : own;
  }
  // The tokens that end a text: those of the model and, as in vLLM, what the tokenizer calls the
  // end.
  std::vector<int32_t> EndTokensOf(const ModelText& of) const;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_SERVED_MODEL_H_

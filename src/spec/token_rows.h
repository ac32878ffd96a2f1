// PEFT's trainable tokens: rows of the embedding, and of lm_head, that an adapter has in place of
// the base model's. Source: peft, utils/other.py (set_additional_trainable_modules) and
// tuners/trainable_tokens.

#ifndef ARIL_SPEC_TOKEN_ROWS_H_
#define ARIL_SPEC_TOKEN_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "spec/model_spec.h"
#include "spec/module_naming.h"

namespace aril {

// Of a module, in the order in which they stand in the file.
struct TokenRows {
  std::string module;  // its name, or the end of it after a "."; empty: the embedding
  std::vector<int32_t> tokens;

  friend bool operator==(const TokenRows&, const TokenRows&) = default;
};

// "trainable_token_indices": a list, or an object of lists by module. Empty if it is off.
StatusOr<std::vector<TokenRows>> ReadTokenRows(const Json& config);

// What they are in a base model; the matrices are one where embeddings are tied, and then lm_head
// has the embedding's rows, unless it is given others. (An adapter's may be more: LoraSpec.)
struct OwnTokenRows {
  std::vector<int32_t> embedding;
  std::vector<int32_t> lm_head;
  bool lm_head_has_the_embeddings = false;  // rows, which the file has once

  bool empty() const { return embedding.empty() && lm_head.empty(); }
};
StatusOr<OwnTokenRows> ResolveTokenRows(const std::vector<TokenRows>& rows, const ModelSpec& base,
                                        const ModuleNaming& naming);

}  // namespace aril

#endif  // ARIL_SPEC_TOKEN_ROWS_H_

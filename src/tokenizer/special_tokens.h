// The special tokens of a model or adapter folder by their role, as chat templates see them.

#ifndef ARIL_TOKENIZER_SPECIAL_TOKENS_H_
#define ARIL_TOKENIZER_SPECIAL_TOKENS_H_

#include <string>

#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"

namespace aril {

// {"bos_token": "<s>", …, "additional_special_tokens": […]}: the members of transformers'
// `special_tokens_map`. What is not set has no member.
//
// From tokenizer_config.json; from special_tokens_map.json as well, which wins unless the config
// has added_tokens_decoder (that is how transformers tells old folders). What neither file
// mentions is as in `fallback`: the base model's for an adapter's folder. A null unsets it.
StatusOr<Json::Object> ReadSpecialTokens(const Folder& dir, const Json::Object& fallback = {});

}  // namespace aril

#endif  // ARIL_TOKENIZER_SPECIAL_TOKENS_H_

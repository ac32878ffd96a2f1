#include "gateway/served_model.h"

#include <algorithm>
#include <optional>

namespace aril::gateway {

std::vector<int32_t> ServedModel::EndTokensOf(const ModelText& of) const {
  std::vector<int32_t> ends = spec.eos_token_ids;
  for (const ModelText* each : {text.get(), &of}) {
    const std::optional<int32_t> end = each->tokenizer->eos_token_id();
    const bool is_new = end && *end < of.vocab_size && std::ranges::find(ends, *end) == ends.end();
    if (is_new) ends.push_back(*end);
  }
  return ends;
}

}  // namespace aril::gateway

// Merges for vocabularies that rank their tokens instead of listing merges.

#ifndef ARIL_TOKENIZER_RANKED_MERGES_H_
#define ARIL_TOKENIZER_RANKED_MERGES_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "tokenizer/bpe.h"

namespace aril {

// Lets every two symbols whose concatenation is `token` merge into it, at `rank`: sentencepiece and
// tiktoken merge whatever neighbours spell a token. `find(text)` gives the id of a part that is a
// token, or a negative number. A part that is a single code point but no token becomes a hidden
// symbol of the model. `token` is valid UTF-8.
void AddSplitsOf(std::string_view token, int32_t id, uint32_t rank,
                 const std::function<int32_t(std::string_view)>& find, BpeModel* model);

}  // namespace aril

#endif  // ARIL_TOKENIZER_RANKED_MERGES_H_

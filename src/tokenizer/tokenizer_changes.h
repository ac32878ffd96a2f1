// What an adapter's folder says of tokens, where that is something else than its base model's
// tokenizer says: tokens that were added for it, another end of texts.

#ifndef ARIL_TOKENIZER_TOKENIZER_CHANGES_H_
#define ARIL_TOKENIZER_TOKENIZER_CHANGES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer_config.h"

namespace aril {

// Twice as many as the base model with most of them adds (Gemma 3: 6,415).
inline constexpr size_t kMaxChangedTokens = 1 << 14;
// As no tokenizer in use has longer ones, prompts are bounded by it (gateway/prompt_tokens.cc).
inline constexpr size_t kMaxChangedTokenBytes = 128;

// Texts are cut, merged and spelled as the base model's tokenizer does it.
struct TokenizerChanges {
  // Tokens that are new, or called otherwise, or looked for otherwise.
  std::vector<AddedToken> tokens;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> eos_token_id;
  std::optional<PostProcessor> around;

  bool empty() const { return *this == TokenizerChanges(); }
  friend bool operator==(const TokenizerChanges&, const TokenizerChanges&) = default;
};

// What a tokenizer_config.json with added_tokens_decoder changes. InvalidArgument if it gives the
// id of a token that texts are made of to another one, or a token two ids, or an eos_token that is
// none.
StatusOr<TokenizerChanges> ChangesBy(const TokenizerConfig& config, const PipelineTokenizer& base);

// The same beside a tokenizer.json, read from `path`, which has them then. Of that nothing else
// counts but what goes around a text; InvalidArgument if its words are not the base model's.
StatusOr<TokenizerChanges> ChangesBy(const TokenizerConfig& config, const Json& tokenizer_json,
                                     const std::string& path, const PipelineTokenizer& base);

// Shares with `base` what is not changed.
std::shared_ptr<const Tokenizer> WithChanges(const PipelineTokenizer& base,
                                             const TokenizerChanges& changes);

// For others who have the same base model. InvalidArgument, with `where`, for what ToJson does not
// make.
Json ToJson(const TokenizerChanges& changes);
StatusOr<TokenizerChanges> ReadTokenizerChanges(const Json& json, const std::string& where);

}  // namespace aril

#endif  // ARIL_TOKENIZER_TOKENIZER_CHANGES_H_

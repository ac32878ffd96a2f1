// tokenizer_config.json, and the small files around it: what refines a tokenizer.

#ifndef ARIL_TOKENIZER_TOKENIZER_CONFIG_H_
#define ARIL_TOKENIZER_TOKENIZER_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/pipeline.h"

namespace aril {

struct TokenizerConfig {
  std::string path;             // for errors; the file need not exist
  std::string tokenizer_class;  // "" if not stated
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<bool> add_prefix_space;
  std::optional<bool> legacy;  // Llama: every text between special tokens gets a leading space
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> unk_token;
  // The contents of bos, eos, unk, pad, … and additional_special_tokens.
  std::vector<std::string> special_tokens;
  std::vector<AddedToken> added_tokens;  // added_tokens_decoder
  // What only added_tokens.json has: names and ids.
  std::vector<AddedToken> plain_added_tokens;
};

// Reads a folder's tokenizer_config.json, which may be absent.
StatusOr<TokenizerConfig> ReadTokenizerConfig(const Folder& dir);
// The same of what has been parsed; `path` names it in errors.
StatusOr<TokenizerConfig> ReadTokenizerConfig(const Json& json, const std::string& path);
// Adds what its added_tokens.json has besides, if there is one.
Status ReadAddedTokensJson(const Folder& dir, TokenizerConfig* config);

// A token that a file describes as `described`, and the tokenizer's own file as `own`: as
// transformers takes it, what the latter calls special stays so.
AddedToken Redescribed(const AddedToken& own, const AddedToken& described);

// Completes `tokens`, as read from the tokenizer's own file, with those of the config: adds the
// missing ones to the list and to `vocabulary`, and the named special tokens that the vocabulary
// has. Where both describe a token, the flags of added_tokens_decoder win (Redescribed).
Status MergeAddedTokens(const TokenizerConfig& config, Vocabulary* vocabulary,
                        std::vector<AddedToken>* tokens);

// The config as it counts beside a tokenizer.json, which says itself what goes around a text: most
// classes of transformers leave it at that, and a few go by add_bos_token and add_eos_token
// (docs/decisions/028-tokenizer-json-is-the-truth.md). What does not count is not set.
TokenizerConfig BesideTokenizerJson(TokenizerConfig config);

// Sets bos and eos from the config, where it names tokens of the vocabulary, and makes the
// post-processor add or omit them where add_bos_token or add_eos_token says so.
void ApplyBosAndEos(const TokenizerConfig& config, PipelineParts* parts);

}  // namespace aril

#endif  // ARIL_TOKENIZER_TOKENIZER_CONFIG_H_

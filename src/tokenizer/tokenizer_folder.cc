#include "tokenizer/tokenizer_folder.h"

#include <optional>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tiktoken.h"
#include "tokenizer/tokenizer_config.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocab_merges.h"

namespace aril {
namespace {

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kTokenizer = "tokenizer.json";

// A tenant's. Gemma 3's has some 1.8 million values.
constexpr JsonLimits kAdapterTokenizerLimits = {.max_bytes = kMaxTokenizerFileBytes,
                                                .max_values = 3'000'000};

bool ListsAddedTokens(const Json& config) { return config.Find("added_tokens_decoder") != nullptr; }

}  // namespace

StatusOr<std::unique_ptr<PipelineTokenizer>> LoadTokenizer(const std::string& model_dir) {
  ASSIGN_OR_RETURN(TokenizerConfig config, ReadTokenizerConfig(model_dir));
  RETURN_IF_ERROR(ReadAddedTokensJson(model_dir, &config));
  const std::string json_path = model_dir + "/tokenizer.json";
  const std::string model_path = model_dir + "/tokenizer.model";
  const std::string vocab_path = model_dir + "/vocab.json";
  const std::string merges_path = model_dir + "/merges.txt";
  if (FileExists(json_path)) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(json_path, kMaxTokenizerFileBytes));
    return ParseTokenizerJson(text, json_path, config);
  }
  if (FileExists(model_path)) {
    ASSIGN_OR_RETURN(const std::string file, ReadFile(model_path, kMaxTokenizerFileBytes));
    if (LooksLikeTiktoken(file)) return ParseTiktoken(file, model_path, config);
    return ParseSentencePieceModel(file, model_path, config);
  }
  if (FileExists(vocab_path)) {
    ASSIGN_OR_RETURN(const std::string vocab, ReadFile(vocab_path, kMaxTokenizerFileBytes));
    ASSIGN_OR_RETURN(const std::string merges, ReadFile(merges_path, kMaxTokenizerFileBytes));
    return ParseVocabMerges(vocab, vocab_path, merges, merges_path, config);
  }
  return NotFound(StrCat(model_dir,
                         " has no tokenizer: expected tokenizer.json, tokenizer.model, or "
                         "vocab.json and merges.txt"));
}

bool NeedsTokenizerJson(const Folder& dir) {
  const auto config = ReadOptionalObject(dir, kConfig);
  return config.ok() && config->has_value() && !ListsAddedTokens(**config);
}

StatusOr<AdapterTokenizerFiles> ReadAdapterTokenizer(const Folder& dir) {
  AdapterTokenizerFiles files = {.config_path = dir.PathOf(kConfig),
                                 .json_path = dir.PathOf(kTokenizer)};
  ASSIGN_OR_RETURN(files.config, ReadOptionalObject(dir, kConfig));
  if (!files.config || ListsAddedTokens(*files.config)) return files;
  auto json = ReadFile(dir, kTokenizer, kMaxTokenizerFileBytes);
  if (json.status().code() == StatusCode::kNotFound) return files;
  RETURN_IF_ERROR(json.status());
  files.json = *std::move(json);
  return files;
}

StatusOr<TokenizerChanges> ChangesIn(const AdapterTokenizerFiles& files,
                                     const PipelineTokenizer& base) {
  if (!files.config) return TokenizerChanges();
  ASSIGN_OR_RETURN(const TokenizerConfig config,
                   ReadTokenizerConfig(*files.config, files.config_path));
  if (!files.json) return ChangesBy(config, base);
  const auto json = Json::Parse(*files.json, kAdapterTokenizerLimits);
  if (!json.ok()) return Annotate(json.status(), files.json_path);
  return ChangesBy(config, *json, files.json_path, base);
}

}  // namespace aril

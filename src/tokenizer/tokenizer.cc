#include "tokenizer/tokenizer.h"

#include "base/file.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tiktoken.h"
#include "tokenizer/tokenizer_config.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocab_merges.h"

namespace aril {

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  IncrementalDetokenizer detokenizer(*this, skip_special_tokens, /*starts_text=*/true);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Append(id);
  return text + detokenizer.Flush();
}

StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& model_dir) {
  ASSIGN_OR_RETURN(const TokenizerConfig config, ReadTokenizerConfig(model_dir));
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

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
                                               bool starts_text)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens), is_first_(starts_text) {}

std::string IncrementalDetokenizer::Append(int32_t id) {
  pending_ += tokenizer_.TokenBytes(id, is_first_, skip_special_tokens_);
  // A skipped token is not there at all: the next one is still the first.
  if (!(skip_special_tokens_ && tokenizer_.IsSpecial(id))) is_first_ = false;
  const size_t complete = pending_.size() - TruncatedTailBytes(pending_);
  std::string text = LossyUtf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string IncrementalDetokenizer::Flush() {
  std::string text = LossyUtf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace aril

// A tokenizer as a pipeline of small parts; every kind of file builds one of these.
//
//   text ─ added tokens (raw) ─ normalizer ─ added tokens (normalized) ─ pre-tokenizer ─ BPE ─ ids
//   ids ─ vocabulary ─ decoder ─ bytes

#ifndef ARIL_TOKENIZER_PIPELINE_H_
#define ARIL_TOKENIZER_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace aril {

// Tokens of it at most, in front and behind; real ones have one or two.
inline constexpr size_t kMaxTokensAround = 64;

// What goes around every text that is encoded with add_special_tokens.
struct PostProcessor {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;

  friend bool operator==(const PostProcessor&, const PostProcessor&) = default;
};

// Tokenizers that differ in a few tokens share the rest (tokenizer_changes.h).
struct PipelineParts {
  std::shared_ptr<const Vocabulary> vocabulary;  // includes the added tokens, but for those below
  std::shared_ptr<const Normalizer> normalizer;
  std::shared_ptr<const PreTokenizer> pre_tokenizer;
  std::shared_ptr<const BpeModel> model;
  std::shared_ptr<const AddedTokens> added_tokens;
  std::shared_ptr<const Decoder> decoder;
  // Added tokens that the vocabulary has not, or calls otherwise.
  std::unordered_map<int32_t, std::string> own_tokens = {};
  PostProcessor post_processor;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> eos_token_id;
};

class PipelineTokenizer : public Tokenizer {
 public:
  // No part may be null.
  explicit PipelineTokenizer(PipelineParts parts);

  // Invalid bytes of `text` count as U+FFFD each.
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override;
  std::string TokenBytes(int32_t id, bool is_first, bool skip_special_tokens) const override;
  int64_t vocab_size() const override { return vocab_size_; }
  bool IsSpecial(int32_t id) const override { return parts_.added_tokens->IsSpecial(id); }
  std::optional<int32_t> bos_token_id() const override { return parts_.bos_token_id; }
  std::optional<int32_t> eos_token_id() const override { return parts_.eos_token_id; }

  const PipelineParts& parts() const { return parts_; }
  // As files spell it; nullptr if no token has this id.
  const std::string* Token(int32_t id) const;

 private:
  void EncodeText(std::string_view text, bool parse_special, std::vector<int32_t>* ids) const;
  void EncodeNormalized(std::string text, bool starts_text, BpeModel::Scratch* scratch,
                        std::vector<int32_t>* ids) const;

  const PipelineParts parts_;
  int64_t vocab_size_;
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_PIPELINE_H_

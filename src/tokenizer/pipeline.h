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
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace aril {

// What goes around every text that is encoded with add_special_tokens.
struct PostProcessor {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
};

struct PipelineParts {
  std::unique_ptr<Vocabulary> vocabulary;  // includes the added tokens
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<BpeModel> model;
  std::unique_ptr<AddedTokens> added_tokens;
  std::unique_ptr<Decoder> decoder;
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
  int64_t vocab_size() const override { return parts_.vocabulary->size(); }
  bool IsSpecial(int32_t id) const override { return parts_.added_tokens->IsSpecial(id); }
  std::optional<int32_t> bos_token_id() const override { return parts_.bos_token_id; }
  std::optional<int32_t> eos_token_id() const override { return parts_.eos_token_id; }

 private:
  void EncodeText(std::string_view text, bool parse_special, std::vector<int32_t>* ids) const;
  void EncodeNormalized(std::string text, bool starts_text, BpeModel::Scratch* scratch,
                        std::vector<int32_t>* ids) const;

  const PipelineParts parts_;
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_PIPELINE_H_

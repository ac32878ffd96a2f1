#include "tokenizer/pipeline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/pieces.h"

namespace aril {
namespace {

std::string Slice(std::string_view text, const AddedTokens::Part& part) {
  return std::string(text.substr(part.begin, part.end - part.begin));
}

}  // namespace

PipelineTokenizer::PipelineTokenizer(PipelineParts parts) : parts_(std::move(parts)) {
  CHECK(parts_.vocabulary && parts_.normalizer && parts_.pre_tokenizer && parts_.model &&
        parts_.added_tokens && parts_.decoder);
  vocab_size_ = parts_.vocabulary->size();
  for (const auto& [id, token] : parts_.own_tokens) {
    vocab_size_ = std::max<int64_t>(vocab_size_, int64_t{id} + 1);
  }
}

const std::string* PipelineTokenizer::Token(int32_t id) const {
  const auto own = parts_.own_tokens.find(id);
  return own == parts_.own_tokens.end() ? parts_.vocabulary->Token(id) : &own->second;
}

std::vector<int32_t> PipelineTokenizer::Encode(std::string_view text,
                                               const EncodeOptions& options) const {
  const PostProcessor& around = parts_.post_processor;
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids = around.prefix;
  if (IsValidUtf8(text)) {
    EncodeText(text, options.parse_special_tokens, &ids);
  } else {
    EncodeText(ReplaceInvalidBytes(text), options.parse_special_tokens, &ids);
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), around.suffix.begin(), around.suffix.end());
  }
  return ids;
}

void PipelineTokenizer::EncodeText(std::string_view text, bool parse_special,
                                   std::vector<int32_t>* ids) const {
  BpeModel::Scratch scratch;
  for (const auto& part : parts_.added_tokens->FindRaw(text, parse_special)) {
    if (part.id >= 0) {
      ids->push_back(part.id);
      continue;
    }
    const std::string normalized = parts_.normalizer->Normalize(Slice(text, part), part.begin == 0);
    for (const auto& piece : parts_.added_tokens->FindNormalized(normalized, parse_special)) {
      if (piece.id >= 0) {
        ids->push_back(piece.id);
      } else {
        const bool starts_text = part.begin == 0 && piece.begin == 0;
        EncodeNormalized(Slice(normalized, piece), starts_text, &scratch, ids);
      }
    }
  }
}

void PipelineTokenizer::EncodeNormalized(std::string text, bool starts_text,
                                         BpeModel::Scratch* scratch,
                                         std::vector<int32_t>* ids) const {
  Pieces pieces(std::move(text), starts_text);
  parts_.pre_tokenizer->Apply(&pieces);
  for (const Pieces::Piece& piece : pieces.pieces()) {
    parts_.model->Encode(pieces.View(piece), scratch, ids);
  }
}

std::string PipelineTokenizer::TokenBytes(int32_t id, bool is_first,
                                          bool skip_special_tokens) const {
  const std::string* token = Token(id);
  if (token == nullptr || (skip_special_tokens && IsSpecial(id))) return "";
  const std::string* spelling = parts_.added_tokens->NormalizedSpelling(id);
  return parts_.decoder->Decode(spelling != nullptr ? *spelling : *token, is_first);
}

}  // namespace aril

#include "tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/ranked_merges.h"
#include "tokenizer/sentencepiece_normalizer.h"
#include "tokenizer/sentencepiece_proto.h"

namespace aril {
namespace {

using Type = SentencePiece::Type;

constexpr char32_t kSpaceCodePoint = 0x2581;

Status RefuseUnimplemented(const SentencePieceProto& proto) {
  using ModelType = SentencePieceProto::ModelType;
  if (proto.model_type != ModelType::kBpe) {
    static constexpr const char* kNames[] = {"", "UNIGRAM", "BPE", "WORD", "CHAR"};
    return Unimplemented(StrCat("trainer_spec.model_type ",
                                kNames[static_cast<int>(proto.model_type)],
                                " is not implemented; only BPE is"));
  }
  if (proto.treat_whitespace_as_suffix) {
    return Unimplemented("trainer_spec.treat_whitespace_as_suffix is not implemented");
  }
  if (!proto.precompiled_charsmap.empty()) {
    return Unimplemented("normalizer_spec.precompiled_charsmap is not implemented");
  }
  if (proto.has_denormalizer) {
    return Unimplemented("denormalizer_spec.precompiled_charsmap is not implemented");
  }
  for (size_t id = 0; id < proto.pieces.size(); ++id) {
    if (proto.pieces[id].type == Type::kUnused) {
      return Unimplemented(StrCat("pieces[", id, "].type UNUSED is not implemented"));
    }
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<Vocabulary>> MakeVocabulary(const SentencePieceProto& proto) {
  auto vocabulary = std::make_unique<Vocabulary>();
  for (size_t id = 0; id < proto.pieces.size(); ++id) {
    RETURN_IF_ERROR(vocabulary->Add(proto.pieces[id].piece, static_cast<int64_t>(id)));
  }
  return vocabulary;
}

// The one piece of type UNKNOWN.
StatusOr<int32_t> UnknownId(const SentencePieceProto& proto) {
  int32_t unknown = -1;
  for (size_t id = 0; id < proto.pieces.size(); ++id) {
    if (proto.pieces[id].type != Type::kUnknown) continue;
    if (unknown >= 0) {
      return InvalidArgument(
          StrCat("pieces[", unknown, "] and pieces[", id, "] are both of type UNKNOWN"));
    }
    unknown = static_cast<int32_t>(id);
  }
  if (unknown < 0) return InvalidArgument("no piece is of type UNKNOWN");
  return unknown;
}

// Whether merging may produce it.
bool IsText(const SentencePiece& piece) {
  return piece.type == Type::kNormal || piece.type == Type::kUserDefined;
}

PrefixMatcher UserDefined(const SentencePieceProto& proto) {
  std::vector<std::pair<std::string, int32_t>> words;
  for (size_t id = 0; id < proto.pieces.size(); ++id) {
    const SentencePiece& piece = proto.pieces[id];
    if (piece.type == Type::kUserDefined) {
      words.emplace_back(piece.piece, static_cast<int32_t>(id));
    }
  }
  return PrefixMatcher(std::move(words));
}

// Higher scores merge first: the rank is the place among the distinct scores.
std::vector<uint32_t> RanksByScore(const SentencePieceProto& proto) {
  std::vector<float> scores;
  for (const SentencePiece& piece : proto.pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<uint32_t> ranks;
  for (const SentencePiece& piece : proto.pieces) {
    const auto at = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    ranks.push_back(static_cast<uint32_t>(at - scores.begin()));
  }
  return ranks;
}

std::unique_ptr<BpeModel> MakeModel(const SentencePieceProto& proto, int32_t unknown_id,
                                    const Vocabulary& vocabulary) {
  auto model = std::make_unique<BpeModel>(
      BpeOptions{.unk_id = unknown_id, .fuse_unk = true, .byte_fallback = proto.byte_fallback},
      &vocabulary);
  const auto find = [&](std::string_view part) {
    const auto id = vocabulary.Find(part);
    return id && IsText(proto.pieces[*id]) ? *id : -1;
  };
  const std::vector<uint32_t> ranks = RanksByScore(proto);
  for (size_t id = 0; id < proto.pieces.size(); ++id) {
    if (!IsText(proto.pieces[id])) continue;
    AddSplitsOf(proto.pieces[id].piece, static_cast<int32_t>(id), ranks[id], find, model.get());
  }
  model->SetUnmergeable(UserDefined(proto));
  model->CutBefore(kSpaceCodePoint);
  return model;
}

std::vector<AddedToken> ControlTokens(const SentencePieceProto& proto) {
  std::vector<AddedToken> tokens;
  for (size_t id = 0; id < proto.pieces.size(); ++id) {
    const SentencePiece& piece = proto.pieces[id];
    if (piece.type != Type::kControl && piece.type != Type::kUnknown) continue;
    tokens.push_back({.content = piece.piece, .id = static_cast<int32_t>(id), .special = true});
  }
  return tokens;
}

// As SentencePieceProcessor::Decode, but for control pieces, which are written out when they are
// not skipped.
Decoder MakeDecoder(const SentencePieceProto& proto, const std::string& unknown) {
  const bool drop_space = proto.add_dummy_prefix || proto.remove_extra_whitespaces;
  const auto spaces = [drop_space](bool is_first, std::string* token) {
    const std::string_view space = kSentencePieceSpace;
    if (is_first && drop_space && token->starts_with(space)) token->erase(0, space.size());
    for (size_t at = token->find(space); at != std::string::npos; at = token->find(space, at + 1)) {
      token->replace(at, space.size(), " ");
    }
  };
  const auto unk_surface = [unknown, surface = proto.unk_surface](bool, std::string* token) {
    if (*token == unknown) *token = surface;
  };
  return Decoder({unk_surface, spaces, DecodeByteFallback});
}

StatusOr<std::unique_ptr<PipelineTokenizer>> Build(const SentencePieceProto& proto,
                                                   const TokenizerConfig& config) {
  RETURN_IF_ERROR(RefuseUnimplemented(proto));
  ASSIGN_OR_RETURN(const int32_t unknown_id, UnknownId(proto));
  PipelineParts parts;
  ASSIGN_OR_RETURN(std::unique_ptr<Vocabulary> vocabulary, MakeVocabulary(proto));
  parts.model = MakeModel(proto, unknown_id, *vocabulary);
  const SentencePieceNormalizer::Options options = {
      .add_dummy_prefix = proto.add_dummy_prefix,
      .prefix_every_text = config.legacy.value_or(false),
      .remove_extra_whitespaces = proto.remove_extra_whitespaces,
      .escape_whitespaces = proto.escape_whitespaces};
  parts.normalizer = std::make_unique<SentencePieceNormalizer>(options, UserDefined(proto));
  ASSIGN_OR_RETURN(parts.pre_tokenizer, ReadPreTokenizer(Json(), ""));
  parts.decoder = std::make_unique<Decoder>(MakeDecoder(proto, proto.pieces[unknown_id].piece));
  std::vector<AddedToken> added = ControlTokens(proto);
  RETURN_IF_ERROR(MergeAddedTokens(config, vocabulary.get(), &added));
  parts.vocabulary = std::move(vocabulary);
  parts.added_tokens = std::make_unique<AddedTokens>(std::move(added), *parts.normalizer);
  parts.bos_token_id = parts.vocabulary->Find(proto.bos_piece);
  parts.eos_token_id = parts.vocabulary->Find(proto.eos_piece);
  TokenizerConfig with_bos = config;
  with_bos.add_bos_token = config.add_bos_token.value_or(true);
  ApplyBosAndEos(with_bos, &parts);
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace

StatusOr<std::unique_ptr<PipelineTokenizer>> ParseSentencePieceModel(
    std::string_view file, const std::string& path, const TokenizerConfig& config) {
  const auto proto = ParseSentencePieceProto(file);
  if (!proto.ok()) return Annotate(proto.status(), path);
  auto tokenizer = Build(*proto, config);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), path);
  return tokenizer;
}

}  // namespace aril

#include "tokenizer/tokenizer_json.h"

#include <utility>
#include <vector>

#include "base/strings.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/post_processor.h"

namespace aril {
namespace {

const Json& MemberOrNull(const JsonFields& fields, std::string_view key) {
  static const Json null;
  const Json* member = fields.Find(key);
  return member == nullptr ? null : *member;
}

// Those that are there; the reference ignores empty ones.
StatusOr<std::vector<AddedToken>> TakeAddedTokens(const JsonFields& fields,
                                                  Vocabulary* vocabulary) {
  ASSIGN_OR_RETURN(std::vector<AddedToken> tokens, ReadAddedTokens(fields));
  std::erase_if(tokens, [](const AddedToken& token) { return token.content.empty(); });
  for (const AddedToken& token : tokens) {
    if (Status added = vocabulary->Add(token.content, token.id); !added.ok()) {
      return Annotate(added, fields.PathOf("added_tokens"));
    }
  }
  return tokens;
}

}  // namespace

StatusOr<std::unique_ptr<PipelineTokenizer>> AssembleTokenizer(const JsonFields& fields,
                                                               BpeWithVocabulary bpe,
                                                               const TokenizerConfig& config) {
  const auto read = [&fields](const char* key, const auto& reader) {
    return reader(MemberOrNull(fields, key), fields.PathOf(key));
  };
  PipelineParts parts;
  parts.model = std::move(bpe.model);
  ASSIGN_OR_RETURN(parts.normalizer, read("normalizer", ReadNormalizer));
  ASSIGN_OR_RETURN(parts.pre_tokenizer, read("pre_tokenizer", ReadPreTokenizer));
  ASSIGN_OR_RETURN(parts.post_processor, read("post_processor", ReadPostProcessor));
  ASSIGN_OR_RETURN(Decoder decoder, read("decoder", ReadDecoder));
  parts.decoder = std::make_unique<Decoder>(std::move(decoder));
  ASSIGN_OR_RETURN(std::vector<AddedToken> added, TakeAddedTokens(fields, bpe.vocabulary.get()));
  RETURN_IF_ERROR(MergeAddedTokens(config, bpe.vocabulary.get(), &added));
  parts.vocabulary = std::move(bpe.vocabulary);
  parts.added_tokens = std::make_unique<AddedTokens>(std::move(added), *parts.normalizer);
  // A template that begins with a token says what BOS is, where no config does.
  if (!parts.post_processor.prefix.empty()) parts.bos_token_id = parts.post_processor.prefix[0];
  ApplyBosAndEos(config, &parts);
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

StatusOr<std::unique_ptr<PipelineTokenizer>> ParseTokenizerJson(std::string_view text,
                                                                const std::string& path,
                                                                const TokenizerConfig& config) {
  auto json = Json::Parse(text, kTokenizerFileLimits);
  if (!json.ok()) return Annotate(json.status(), path);
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*json, path));
  ASSIGN_OR_RETURN(const JsonFields model, fields.Object("model"));
  ASSIGN_OR_RETURN(BpeWithVocabulary bpe, ReadBpe(model));
  return AssembleTokenizer(fields, std::move(bpe), BesideTokenizerJson(config));
}

}  // namespace aril

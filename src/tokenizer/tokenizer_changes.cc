#include "tokenizer/tokenizer_changes.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/strings.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/post_processor.h"

namespace aril {
namespace {

constexpr size_t kMaxShownBytes = 100;  // of a token

std::string Shown(std::string_view token) { return JsonQuote(token.substr(0, kMaxShownBytes)); }

Status CheckBounds(const AddedToken& token, const std::string& where) {
  if (token.id >= 0 && token.id < Vocabulary::kMaxIds && !token.content.empty() &&
      token.content.size() <= kMaxChangedTokenBytes) {
    return OkStatus();
  }
  return InvalidArgument(StrCat(where, ": the token ", Shown(token.content), " of id ", token.id,
                                " has more than ", kMaxChangedTokenBytes,
                                " bytes, or none, or an id that is out of bounds"));
}

using TokensByContent = std::unordered_map<std::string, AddedToken>;

TokensByContent AddedTokensOf(const PipelineTokenizer& tokenizer) {
  TokensByContent tokens;
  for (AddedToken& token : tokenizer.parts().added_tokens->tokens()) {
    std::string content = token.content;
    tokens.emplace(std::move(content), std::move(token));
  }
  return tokens;
}

// Collects the added tokens that a base model's tokenizer has not, or has otherwise.
class TokenDifferences {
 public:
  // `where` they stand, for errors.
  TokenDifferences(const PipelineTokenizer& base, std::string where)
      : base_(base), where_(std::move(where)), added_(AddedTokensOf(base)) {
    for (const auto& [content, token] : added_) added_ids_.emplace(token.id, content);
  }

  // The base's, if it has one of this text and id.
  const AddedToken* Find(const AddedToken& token) const {
    const auto found = added_.find(token.content);
    return found != added_.end() && found->second.id == token.id ? &found->second : nullptr;
  }

  Status Take(const AddedToken& token) {
    if (token.content.empty()) return OkStatus();
    if (const AddedToken* own = Find(token); own != nullptr && *own == token) return OkStatus();
    RETURN_IF_ERROR(CheckBounds(token, where_));
    if (tokens_.size() == kMaxChangedTokens) {
      return InvalidArgument(StrCat(where_, ": an adapter may have ", kMaxChangedTokens,
                                    " tokens of its own at most"));
    }
    // Of a token that was added, another can take the place.
    const std::string* present = base_.Token(token.id);
    if (present != nullptr && *present != token.content && !added_ids_.contains(token.id)) {
      return InvalidArgument(StrCat(where_, ": the token of id ", token.id, " is ",
                                    Shown(token.content), ", with which the base model's ",
                                    Shown(*present), " could not be told any more"));
    }
    const auto [known, is_new] = ids_.emplace(token.content, token.id);
    if (!is_new) {
      return InvalidArgument(StrCat(where_, ": the token ", Shown(token.content), " has two ids, ",
                                    known->second, " and ", token.id));
    }
    tokens_.push_back(token);
    return OkStatus();
  }

  // Of those taken, or else of the base's.
  std::optional<int32_t> IdOf(const std::optional<std::string>& content) const {
    if (!content || content->empty()) return std::nullopt;
    const auto own = ids_.find(*content);
    return own != ids_.end() ? own->second : base_.parts().vocabulary->Find(*content);
  }
  bool IsAdded(const std::string& content) const {
    return added_.contains(content) || ids_.contains(content);
  }

  std::vector<AddedToken> Finish() { return std::move(tokens_); }

 private:
  const PipelineTokenizer& base_;
  const std::string where_;
  const TokensByContent added_;
  std::unordered_map<int32_t, std::string> added_ids_;
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, int32_t> ids_;  // of those, by content
};

Json::Array ToJson(const std::vector<int32_t>& ids) {
  Json::Array array;
  for (const int32_t id : ids) array.emplace_back(int64_t{id});
  return array;
}

template <typename T>
std::optional<T> IfOther(const T& value, const T& of_base) {
  return value == of_base ? std::nullopt : std::optional<T>(value);
}

std::optional<int32_t> IfOther(std::optional<int32_t> id, std::optional<int32_t> of_base) {
  return id == of_base ? std::nullopt : id;
}

// Of the config what counts beside the added tokens. `around`: before its flags are looked at.
StatusOr<TokenizerChanges> Finish(const TokenizerConfig& config, PostProcessor around,
                                  const PipelineTokenizer& base, TokenDifferences* tokens) {
  for (const std::string& content : config.special_tokens) {
    const auto id = tokens->IsAdded(content) ? std::nullopt : tokens->IdOf(content);
    if (id) RETURN_IF_ERROR(tokens->Take({.content = content, .id = *id, .special = true}));
  }
  const PipelineParts& own = base.parts();
  PipelineParts changed = own;
  changed.post_processor = std::move(around);
  if (const auto bos = tokens->IdOf(config.bos_token)) changed.bos_token_id = bos;
  if (config.eos_token && !config.eos_token->empty()) {
    changed.eos_token_id = tokens->IdOf(config.eos_token);
    if (!changed.eos_token_id) {
      return InvalidArgument(StrCat(config.path, ": eos_token is ", Shown(*config.eos_token),
                                    ", which is no token of the base model's, nor one that was "
                                    "added: tokenizer.json may be missing beside it"));
    }
  }
  TokenizerConfig flags = BesideTokenizerJson(config);
  flags.bos_token.reset();
  flags.eos_token.reset();
  ApplyBosAndEos(flags, &changed);
  return TokenizerChanges{.tokens = tokens->Finish(),
                          .bos_token_id = IfOther(changed.bos_token_id, own.bos_token_id),
                          .eos_token_id = IfOther(changed.eos_token_id, own.eos_token_id),
                          .around = IfOther(changed.post_processor, own.post_processor)};
}

// The words of a tokenizer.json, added tokens or not, must be the base model's, and all of them.
Status CheckWords(const JsonFields& vocabulary, const std::vector<AddedToken>& added,
                  const PipelineTokenizer& base) {
  std::unordered_set<int64_t> added_ids;
  for (const AddedToken& token : added) added_ids.insert(token.id);
  for (const AddedToken& token : base.parts().added_tokens->tokens()) added_ids.insert(token.id);
  int64_t num_words = 0;
  for (const auto& [word, json] : vocabulary.members()) {
    const int64_t* const id = json.AsInt();
    if (id != nullptr && added_ids.contains(*id)) continue;
    if (id == nullptr || base.parts().vocabulary->Find(word) != *id) {
      return InvalidArgument(StrCat(vocabulary.PathOf(Shown(word)), " is ", json.Dump(),
                                    ", which is no token of the base model's: an adapter may add "
                                    "tokens, and has all others of the base model"));
    }
    ++num_words;
  }
  int64_t num_of_base = 0;
  for (int32_t id = 0; id < base.vocab_size(); ++id) {
    if (base.Token(id) != nullptr && !added_ids.contains(id)) ++num_of_base;
  }
  if (num_words == num_of_base) return OkStatus();
  return InvalidArgument(
      StrCat(vocabulary.where(), " has ", num_words, " words, and the base model's tokenizer ",
             num_of_base, ": an adapter may add tokens, and has all others of the base model"));
}

StatusOr<std::optional<int32_t>> ReadOptionalId(const JsonFields& fields, std::string_view key) {
  const Json* const id = fields.Find(key);
  if (id == nullptr) return std::optional<int32_t>();
  ASSIGN_OR_RETURN(const int32_t read, ReadTokenId(*id, fields.PathOf(key)));
  return std::optional(read);
}

StatusOr<std::vector<int32_t>> ReadIds(const JsonFields& fields, std::string_view key) {
  ASSIGN_OR_RETURN(const Json::Array* list, fields.Array(key));
  if (list->size() > kMaxTokensAround) {
    return InvalidArgument(
        StrCat(fields.PathOf(key), " has more than ", kMaxTokensAround, " tokens"));
  }
  std::vector<int32_t> ids;
  for (const Json& item : *list) {
    ASSIGN_OR_RETURN(ids.emplace_back(), ReadTokenId(item, fields.PathOf(key)));
  }
  return ids;
}

}  // namespace

StatusOr<TokenizerChanges> ChangesBy(const TokenizerConfig& config, const PipelineTokenizer& base) {
  TokenDifferences tokens(base, config.path + ": added_tokens_decoder");
  for (const AddedToken& token : config.added_tokens) {
    const AddedToken* const own = tokens.Find(token);
    RETURN_IF_ERROR(tokens.Take(own == nullptr ? token : Redescribed(*own, token)));
  }
  return Finish(config, base.parts().post_processor, base, &tokens);
}

StatusOr<TokenizerChanges> ChangesBy(const TokenizerConfig& config, const Json& tokenizer_json,
                                     const std::string& path, const PipelineTokenizer& base) {
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(tokenizer_json, path));
  TokenDifferences tokens(base, path + ": added_tokens");
  ASSIGN_OR_RETURN(const std::vector<AddedToken> added, ReadAddedTokens(fields));
  for (const AddedToken& token : added) RETURN_IF_ERROR(tokens.Take(token));
  ASSIGN_OR_RETURN(const JsonFields model, fields.Object("model"));
  ASSIGN_OR_RETURN(const JsonFields vocabulary, model.Object("vocab"));
  RETURN_IF_ERROR(CheckWords(vocabulary, added, base));
  static const Json nothing;
  const Json* const around = fields.Find("post_processor");
  ASSIGN_OR_RETURN(PostProcessor own, ReadPostProcessor(around == nullptr ? nothing : *around,
                                                        fields.PathOf("post_processor")));
  return Finish(config, std::move(own), base, &tokens);
}

std::shared_ptr<const Tokenizer> WithChanges(const PipelineTokenizer& base,
                                             const TokenizerChanges& changes) {
  PipelineParts parts = base.parts();
  std::unordered_set<std::string_view> contents;
  for (const AddedToken& token : changes.tokens) {
    parts.own_tokens.insert_or_assign(token.id, token.content);
    contents.insert(token.content);
  }
  std::vector<AddedToken> added = parts.added_tokens->tokens();
  std::erase_if(added, [&](const AddedToken& token) {
    return parts.own_tokens.contains(token.id) || contents.contains(token.content);
  });
  added.insert(added.end(), changes.tokens.begin(), changes.tokens.end());
  parts.added_tokens = std::make_shared<AddedTokens>(std::move(added), *parts.normalizer);
  if (changes.bos_token_id) parts.bos_token_id = changes.bos_token_id;
  if (changes.eos_token_id) parts.eos_token_id = changes.eos_token_id;
  if (changes.around) parts.post_processor = *changes.around;
  return std::make_shared<PipelineTokenizer>(std::move(parts));
}

Json ToJson(const TokenizerChanges& changes) {
  Json::Array tokens;
  for (const AddedToken& token : changes.tokens) {
    Json::Object object = {{"id", int64_t{token.id}}, {"content", token.content}};
    // ReadAddedToken has defaults.
    if (token.special) object.emplace_back("special", true);
    if (token.normalized == token.special) object.emplace_back("normalized", token.normalized);
    if (token.single_word) object.emplace_back("single_word", true);
    if (token.lstrip) object.emplace_back("lstrip", true);
    if (token.rstrip) object.emplace_back("rstrip", true);
    tokens.emplace_back(std::move(object));
  }
  Json::Object object = {{"added_tokens", std::move(tokens)}};
  if (changes.bos_token_id) object.emplace_back("bos", int64_t{*changes.bos_token_id});
  if (changes.eos_token_id) object.emplace_back("eos", int64_t{*changes.eos_token_id});
  if (changes.around) {
    object.emplace_back("prefix", ToJson(changes.around->prefix));
    object.emplace_back("suffix", ToJson(changes.around->suffix));
  }
  return object;
}

StatusOr<TokenizerChanges> ReadTokenizerChanges(const Json& json, const std::string& where) {
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where));
  TokenizerChanges changes;
  ASSIGN_OR_RETURN(changes.tokens, ReadAddedTokens(fields));
  if (changes.tokens.size() > kMaxChangedTokens) {
    return InvalidArgument(StrCat(where, " has more than ", kMaxChangedTokens, " tokens"));
  }
  for (const AddedToken& token : changes.tokens) RETURN_IF_ERROR(CheckBounds(token, where));
  ASSIGN_OR_RETURN(changes.bos_token_id, ReadOptionalId(fields, "bos"));
  ASSIGN_OR_RETURN(changes.eos_token_id, ReadOptionalId(fields, "eos"));
  if (!fields.Has("prefix")) return changes;
  changes.around.emplace();
  ASSIGN_OR_RETURN(changes.around->prefix, ReadIds(fields, "prefix"));
  ASSIGN_OR_RETURN(changes.around->suffix, ReadIds(fields, "suffix"));
  return changes;
}

}  // namespace aril

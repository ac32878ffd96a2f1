#include "tokenizer/tokenizer_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "tokenizer/json_fields.h"

namespace aril {
namespace {

// A token by name: a string, or an object with `content`.
StatusOr<std::optional<std::string>> ReadTokenName(const JsonFields& fields, std::string_view key) {
  const Json* member = fields.Find(key);
  if (member == nullptr || member->AsObject() == nullptr) return fields.OptionalString(key);
  ASSIGN_OR_RETURN(const JsonFields token, fields.Object(key));
  return token.OptionalString("content");
}

Status ReadSpecialTokens(const JsonFields& fields, TokenizerConfig* config) {
  ASSIGN_OR_RETURN(config->bos_token, ReadTokenName(fields, "bos_token"));
  ASSIGN_OR_RETURN(config->eos_token, ReadTokenName(fields, "eos_token"));
  ASSIGN_OR_RETURN(config->unk_token, ReadTokenName(fields, "unk_token"));
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                          "cls_token", "mask_token"}) {
    ASSIGN_OR_RETURN(const auto name, ReadTokenName(fields, key));
    if (name) config->special_tokens.push_back(*name);
  }
  if (!fields.Has("additional_special_tokens")) return OkStatus();
  ASSIGN_OR_RETURN(const Json::Array* list, fields.Array("additional_special_tokens"));
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& item = (*list)[i];
    const Json* content = item.AsObject() != nullptr ? item.Find("content") : &item;
    if (content == nullptr || content->AsString() == nullptr) {
      return InvalidArgument(StrCat(ElementPath(fields.PathOf("additional_special_tokens"), i),
                                    " must be a string or an object with content"));
    }
    config->special_tokens.push_back(*content->AsString());
  }
  return OkStatus();
}

StatusOr<int32_t> ParseId(const std::string& text, const JsonFields& fields) {
  int32_t id = -1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), id);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || id < 0) {
    return InvalidArgument(
        StrCat(fields.where(), " has the key ", JsonQuote(text), ", which is no token id"));
  }
  return id;
}

// {"151643": {"content": "<|endoftext|>", "special": true, …}, …}
Status ReadAddedTokensDecoder(const JsonFields& config_fields, TokenizerConfig* config) {
  if (!config_fields.Has("added_tokens_decoder")) return OkStatus();
  ASSIGN_OR_RETURN(const JsonFields fields, config_fields.Object("added_tokens_decoder"));
  for (const auto& [key, value] : fields.members()) {
    ASSIGN_OR_RETURN(const JsonFields entry, JsonFields::Of(value, fields.PathOf(key)));
    ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(entry));
    ASSIGN_OR_RETURN(token.id, ParseId(key, fields));
    config->added_tokens.push_back(std::move(token));
  }
  return OkStatus();
}

Status ReadConfigFile(const JsonFields& fields, TokenizerConfig* config) {
  ASSIGN_OR_RETURN(const auto tokenizer_class, fields.OptionalString("tokenizer_class"));
  config->tokenizer_class = tokenizer_class.value_or("");
  ASSIGN_OR_RETURN(config->add_bos_token, fields.OptionalBool("add_bos_token"));
  ASSIGN_OR_RETURN(config->add_eos_token, fields.OptionalBool("add_eos_token"));
  ASSIGN_OR_RETURN(config->add_prefix_space, fields.OptionalBool("add_prefix_space"));
  ASSIGN_OR_RETURN(config->legacy, fields.OptionalBool("legacy"));
  RETURN_IF_ERROR(ReadSpecialTokens(fields, config));
  return ReadAddedTokensDecoder(fields, config);
}

// The classes that go by add_bos_token and add_eos_token.
// Source: transformers 4.57, models/*/tokenization_*_fast.py.
struct ClassWithFlags {
  std::string_view name;  // without "Fast"
  bool adds_bos;          // where the config does not say so; none adds an EOS then
  bool without_flags;     // goes by that even if the config has neither flag
};
constexpr ClassWithFlags kClassesWithFlags[] = {
    {.name = "CodeLlamaTokenizer", .adds_bos = true, .without_flags = true},
    {.name = "CohereTokenizer", .adds_bos = true, .without_flags = false},
    {.name = "GPTNeoXTokenizer", .adds_bos = false, .without_flags = true},
    {.name = "GemmaTokenizer", .adds_bos = true, .without_flags = false},
    {.name = "LlamaTokenizer", .adds_bos = true, .without_flags = false},
};

void SetEnd(const std::optional<int32_t>& id, bool wanted, std::vector<int32_t>* end) {
  end->clear();
  if (wanted && id) end->push_back(*id);
}

}  // namespace

StatusOr<TokenizerConfig> ReadTokenizerConfig(const Folder& dir) {
  constexpr const char* kConfig = "tokenizer_config.json";
  ASSIGN_OR_RETURN(const std::optional<Json> json, ReadOptionalObject(dir, kConfig));
  return ReadTokenizerConfig(json.value_or(Json::Object()), dir.PathOf(kConfig));
}

StatusOr<TokenizerConfig> ReadTokenizerConfig(const Json& json, const std::string& path) {
  TokenizerConfig config;
  config.path = path;
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, path));
  RETURN_IF_ERROR(ReadConfigFile(fields, &config));
  return config;
}

// {"<|im_end|>": 151645, …}. Tokens that the config does not describe are plain.
Status ReadAddedTokensJson(const Folder& dir, TokenizerConfig* config) {
  constexpr const char* kAdded = "added_tokens.json";
  ASSIGN_OR_RETURN(const std::optional<Json> added, ReadOptionalObject(dir, kAdded));
  if (!added) return OkStatus();
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*added, dir.PathOf(kAdded)));
  std::unordered_set<std::string> described;
  for (const AddedToken& token : config->added_tokens) described.insert(token.content);
  for (const auto& [content, id] : fields.members()) {
    if (described.contains(content)) continue;
    if (id.AsInt() == nullptr || *id.AsInt() < 0 || *id.AsInt() >= Vocabulary::kMaxIds) {
      return fields.WrongType(content, id, "a token id");
    }
    config->plain_added_tokens.push_back(
        {.content = content, .id = static_cast<int32_t>(*id.AsInt()), .normalized = true});
  }
  return OkStatus();
}

// Source: transformers' PreTrainedTokenizerFast, which adds tokens of the config whose flags differ
// once more, and the tokenizers library, where a token that has been special once always is.
AddedToken Redescribed(const AddedToken& own, const AddedToken& described) {
  AddedToken token = described;
  token.id = own.id;
  token.special = own.special || described.special;
  return token;
}

Status MergeAddedTokens(const TokenizerConfig& config, Vocabulary* vocabulary,
                        std::vector<AddedToken>* tokens) {
  std::unordered_map<std::string, size_t> known;  // content → its index in `tokens`
  for (size_t i = 0; i < tokens->size(); ++i) known.emplace((*tokens)[i].content, i);
  const auto add = [&](const AddedToken& token) {
    known.emplace(token.content, tokens->size());
    tokens->push_back(token);
    return Annotate(vocabulary->Add(token.content, token.id),
                    config.path + ": added_tokens_decoder");
  };
  for (const AddedToken& token : config.added_tokens) {
    if (const auto found = known.find(token.content); found != known.end()) {
      AddedToken& own = (*tokens)[found->second];
      own = Redescribed(own, token);
    } else if (!token.content.empty()) {
      RETURN_IF_ERROR(add(token));
    }
  }
  for (const AddedToken& token : config.plain_added_tokens) {
    if (!token.content.empty() && !known.contains(token.content)) RETURN_IF_ERROR(add(token));
  }
  for (const std::string& content : config.special_tokens) {
    const auto id = vocabulary->Find(content);
    if (!id || content.empty() || !known.emplace(content, tokens->size()).second) continue;
    tokens->push_back({.content = content, .id = *id, .special = true});
  }
  return OkStatus();
}

TokenizerConfig BesideTokenizerJson(TokenizerConfig config) {
  std::string_view name = config.tokenizer_class;
  if (name.ends_with("Fast")) name.remove_suffix(std::string_view("Fast").size());
  const auto* found = std::ranges::find(kClassesWithFlags, name, &ClassWithFlags::name);
  const bool has_flags = config.add_bos_token.has_value() || config.add_eos_token.has_value();
  if (found != std::end(kClassesWithFlags) && (has_flags || found->without_flags)) {
    config.add_bos_token = config.add_bos_token.value_or(found->adds_bos);
    config.add_eos_token = config.add_eos_token.value_or(false);
  } else {
    config.add_bos_token.reset();
    config.add_eos_token.reset();
  }
  return config;
}

void ApplyBosAndEos(const TokenizerConfig& config, PipelineParts* parts) {
  const auto find = [parts](const std::optional<std::string>& name) {
    return name ? parts->vocabulary->Find(*name) : std::nullopt;
  };
  if (const auto bos = find(config.bos_token)) parts->bos_token_id = bos;
  if (const auto eos = find(config.eos_token)) parts->eos_token_id = eos;
  PostProcessor& around = parts->post_processor;
  if (config.add_bos_token) SetEnd(parts->bos_token_id, *config.add_bos_token, &around.prefix);
  if (config.add_eos_token) SetEnd(parts->eos_token_id, *config.add_eos_token, &around.suffix);
}

}  // namespace aril

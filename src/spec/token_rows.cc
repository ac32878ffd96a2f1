#include "spec/token_rows.h"

#include <limits>
#include <unordered_set>
#include <utility>

#include "base/strings.h"
#include "spec/fields.h"
#include "spec/lora_config.h"

namespace aril {
namespace {

using internal::BadField;

constexpr std::string_view kField = "trainable_token_indices";
constexpr size_t kMaxModules = 2;
constexpr size_t kMaxShownName = 100;  // of a stranger's file

StatusOr<std::vector<int32_t>> ReadTokens(const Json& json, const Json& config) {
  constexpr const char* kExpected =
      "a list of different ids of tokens, or an object of such lists by module";
  const Json::Array* const list = json.AsArray();
  if (list == nullptr || list->empty()) return BadField(config, kField, kExpected);
  if (list->size() > static_cast<size_t>(kMaxLoraRank)) {
    return InvalidArgument(StrCat('"', kField, "\" has ", list->size(), " tokens; there may be ",
                                  kMaxLoraRank, " at most"));
  }
  std::vector<int32_t> tokens;
  std::unordered_set<int64_t> seen;
  for (const Json& item : *list) {
    const int64_t* const token = item.AsInt();
    if (token == nullptr || *token < 0 || *token > std::numeric_limits<int32_t>::max() ||
        !seen.insert(*token).second) {
      return BadField(config, kField, kExpected);
    }
    tokens.push_back(static_cast<int32_t>(*token));
  }
  return tokens;
}

bool Is(std::string_view module, const std::string& named) {
  return !module.empty() && (module == named || module.ends_with("." + named));
}

}  // namespace

StatusOr<std::vector<TokenRows>> ReadTokenRows(const Json& config) {
  std::vector<TokenRows> rows;
  if (internal::IsOff(config, kField)) return rows;
  const Json& field = *internal::FindField(config, kField);
  const Json::Object* const by_module = field.AsObject();
  if (by_module == nullptr) {
    ASSIGN_OR_RETURN(std::vector<int32_t> tokens, ReadTokens(field, config));
    rows.push_back({.module = "", .tokens = std::move(tokens)});
    return rows;
  }
  if (by_module->size() > kMaxModules) {
    return BadField(config, kField, "given for the embedding and lm_head");
  }
  for (const auto& [module, list] : *by_module) {
    if (module.empty()) return BadField(config, kField, "given by the names of modules");
    ASSIGN_OR_RETURN(std::vector<int32_t> tokens, ReadTokens(list, config));
    rows.push_back({.module = module, .tokens = std::move(tokens)});
  }
  return rows;
}

StatusOr<OwnTokenRows> ResolveTokenRows(const std::vector<TokenRows>& rows, const ModelSpec& base,
                                        const ModuleNaming& naming) {
  const std::string embedding = naming.Embedding();
  OwnTokenRows own;
  for (const auto& [module, tokens] : rows) {
    const bool is_embedding = module.empty() || Is(embedding, module);
    std::vector<int32_t>& of_module = is_embedding ? own.embedding : own.lm_head;
    if ((!is_embedding && !Is(naming.lm_head, module)) || !of_module.empty()) {
      return InvalidArgument(StrCat('"', kField, "\" names ",
                                    JsonQuote(module.substr(0, kMaxShownName)), "; supported are ",
                                    embedding, " and ", naming.lm_head, ", once each"));
    }
    for (const int32_t token : tokens) {
      if (token < base.vocab_size) continue;
      return InvalidArgument(StrCat('"', kField, "\" has token ", token, ", and the vocabulary ",
                                    base.vocab_size, " tokens"));
    }
    of_module = tokens;
  }
  if (!base.has_lm_head && !own.lm_head.empty()) {
    return InvalidArgument(StrCat('"', kField, "\" names lm_head, which this base model has not"));
  }
  const bool is_tied = base.tie_word_embeddings && base.has_lm_head && !own.embedding.empty();
  if (is_tied && (own.lm_head.empty() || own.lm_head == own.embedding)) {
    own.lm_head = own.embedding;
    own.lm_head_has_the_embeddings = true;
  }
  return own;
}

}  // namespace aril

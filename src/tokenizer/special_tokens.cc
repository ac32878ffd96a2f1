#include "tokenizer/special_tokens.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "tokenizer/json_fields.h"

namespace aril {
namespace {

constexpr std::string_view kListRole = "additional_special_tokens";
constexpr std::string_view kRoles[] = {"bos_token", "eos_token", "unk_token",  "sep_token",
                                       "pad_token", "cls_token", "mask_token", kListRole};

// A token is a string, or an object with `content`.
StatusOr<Json> ReadToken(const Json& json, const std::string& path) {
  const Json* content = json.AsObject() != nullptr ? json.Find("content") : &json;
  if (content != nullptr && content->AsString() != nullptr) return *content;
  return InvalidArgument(StrCat(path, " must be a string or an object with content"));
}

StatusOr<Json> ReadTokens(const Json& json, const std::string& path) {
  if (json.AsArray() == nullptr) return ReadToken(json, path);
  Json::Array tokens;
  for (size_t i = 0; i < json.AsArray()->size(); ++i) {
    ASSIGN_OR_RETURN(Json token, ReadToken((*json.AsArray())[i], ElementPath(path, i)));
    tokens.push_back(std::move(token));
  }
  return Json(std::move(tokens));
}

bool IsEmpty(const Json& tokens) {
  if (tokens.is_null()) return true;
  if (tokens.AsArray() != nullptr) return tokens.AsArray()->empty();
  return tokens.AsString() != nullptr && tokens.AsString()->empty();
}

// Takes over what the file says about a role.
Status Update(const Json& file, const std::string& path, std::string_view role, Json* tokens) {
  const Json* member = file.Find(role);
  if (member == nullptr) return OkStatus();
  if (member->is_null()) {
    *tokens = Json();
    return OkStatus();
  }
  ASSIGN_OR_RETURN(*tokens, ReadTokens(*member, StrCat(path, ": ", role)));
  if ((tokens->AsArray() != nullptr) == (role == kListRole)) return OkStatus();
  return InvalidArgument(StrCat(path, ": ", role, " must be ",
                                role == kListRole ? "a list" : "a single token", ", not ",
                                tokens->KindName()));
}

}  // namespace

StatusOr<Json::Object> ReadSpecialTokens(const Folder& dir, const Json::Object& fallback) {
  constexpr const char* kConfig = "tokenizer_config.json";
  constexpr const char* kMap = "special_tokens_map.json";
  ASSIGN_OR_RETURN(const std::optional<Json> config, ReadOptionalObject(dir, kConfig));
  ASSIGN_OR_RETURN(const std::optional<Json> map, ReadOptionalObject(dir, kMap));
  const bool has_old_config = !config || config->Find("added_tokens_decoder") == nullptr;
  const Json base(fallback);
  Json::Object result;
  for (const std::string_view role : kRoles) {
    Json tokens;
    if (const Json* member = base.Find(role)) tokens = *member;
    if (config) RETURN_IF_ERROR(Update(*config, dir.PathOf(kConfig), role, &tokens));
    if (map && has_old_config) RETURN_IF_ERROR(Update(*map, dir.PathOf(kMap), role, &tokens));
    if (!IsEmpty(tokens)) result.emplace_back(role, std::move(tokens));
  }
  return result;
}

}  // namespace aril

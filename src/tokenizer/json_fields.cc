#include "tokenizer/json_fields.h"

#include "base/file.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kMaxConfigBytes = 16 << 20;

}  // namespace

StatusOr<JsonFields> JsonFields::Of(const Json& json, std::string where) {
  if (json.AsObject() == nullptr) {
    return InvalidArgument(StrCat(where, " must be an object, not ", json.KindName()));
  }
  return JsonFields(&json, std::move(where));
}

std::string JsonFields::PathOf(std::string_view key) const {
  // The file itself ends with its name, a member with its path in the file.
  const bool in_file = where_.find(": ") != std::string::npos;
  return StrCat(where_, in_file ? "." : ": ", key);
}

Status JsonFields::WrongType(std::string_view key, const Json& found,
                             std::string_view expected) const {
  return InvalidArgument(StrCat(PathOf(key), " must be ", expected, ", not ", found.KindName()));
}

const Json* JsonFields::Find(std::string_view key) const {
  const Json* member = json_->Find(key);
  return member == nullptr || member->is_null() ? nullptr : member;
}

StatusOr<const Json*> JsonFields::Required(std::string_view key, std::string_view expected) const {
  const Json* member = Find(key);
  if (member == nullptr) {
    return InvalidArgument(StrCat(PathOf(key), " is missing; expected ", expected));
  }
  return member;
}

StatusOr<std::optional<std::string>> JsonFields::OptionalString(std::string_view key) const {
  const Json* member = Find(key);
  if (member == nullptr) return std::optional<std::string>();
  if (member->AsString() == nullptr) return WrongType(key, *member, "a string");
  return std::optional<std::string>(*member->AsString());
}

StatusOr<std::optional<bool>> JsonFields::OptionalBool(std::string_view key) const {
  const Json* member = Find(key);
  if (member == nullptr) return std::optional<bool>();
  if (member->AsBool() == nullptr) return WrongType(key, *member, "true or false");
  return std::optional<bool>(*member->AsBool());
}

StatusOr<std::string> JsonFields::String(std::string_view key) const {
  ASSIGN_OR_RETURN(const Json* member, Required(key, "a string"));
  if (member->AsString() == nullptr) return WrongType(key, *member, "a string");
  return *member->AsString();
}

StatusOr<bool> JsonFields::Bool(std::string_view key, bool value_if_absent) const {
  ASSIGN_OR_RETURN(const std::optional<bool> value, OptionalBool(key));
  return value.value_or(value_if_absent);
}

StatusOr<int64_t> JsonFields::Int(std::string_view key) const {
  ASSIGN_OR_RETURN(const Json* member, Required(key, "an integer"));
  if (member->AsInt() == nullptr) return WrongType(key, *member, "an integer");
  return *member->AsInt();
}

StatusOr<const Json::Array*> JsonFields::Array(std::string_view key) const {
  ASSIGN_OR_RETURN(const Json* member, Required(key, "a list"));
  if (member->AsArray() == nullptr) return WrongType(key, *member, "a list");
  return member->AsArray();
}

StatusOr<JsonFields> JsonFields::Object(std::string_view key) const {
  ASSIGN_OR_RETURN(const Json* member, Required(key, "an object"));
  return Of(*member, PathOf(key));
}

StatusOr<std::optional<Json>> ReadOptionalObject(const Folder& folder, const std::string& name) {
  const std::string path = folder.PathOf(name);
  const auto text = ReadFile(folder, name, kMaxConfigBytes);
  if (text.status().code() == StatusCode::kNotFound) return std::optional<Json>();
  RETURN_IF_ERROR(text.status());
  auto json = Json::Parse(*text, {.max_bytes = kMaxConfigBytes});
  if (!json.ok()) return Annotate(json.status(), path);
  RETURN_IF_ERROR(JsonFields::Of(*json, path).status());
  return std::optional<Json>(*std::move(json));
}

std::string ElementPath(std::string_view where, size_t index) {
  return StrCat(where, "[", index, "]");
}

}  // namespace aril

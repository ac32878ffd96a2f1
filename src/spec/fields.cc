#include "spec/fields.h"

#include "base/file.h"
#include "base/strings.h"

namespace aril::internal {
namespace {

// The value of a field as it may stand in an error message.
std::string Found(const Json& object, std::string_view key) {
  constexpr size_t kMaxShown = 100;
  const Json* value = object.Find(key);
  if (value == nullptr) return "missing";
  std::string text = value->Dump();
  if (text.size() <= kMaxShown) return text;
  // Cut before the bytes that continue a code point.
  size_t end = kMaxShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string Describe(const Json& object, std::string_view key) {
  return StrCat("\"", key, "\" is ", Found(object, key));
}

StatusOr<Json> ParseConfigFile(const std::string& text, const std::string& path) {
  StatusOr<Json> json = Json::Parse(text, {.max_bytes = kMaxConfigBytes});
  if (!json.ok()) return Annotate(json.status(), path);
  if (json->AsObject() == nullptr) {
    return InvalidArgument(StrCat(path, ": must hold a JSON object, not ", json->KindName()));
  }
  return json;
}

}  // namespace

StatusOr<Json> ReadConfigFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  return ParseConfigFile(text, path);
}

StatusOr<Json> ReadConfigFile(const Folder& folder, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(folder, name, kMaxConfigBytes));
  return ParseConfigFile(text, folder.PathOf(name));
}

const Json* FindField(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool IsOff(const Json& object, std::string_view key) {
  const Json* value = FindField(object, key);
  if (value == nullptr) return true;
  if (const bool* b = value->AsBool()) return !*b;
  if (const std::string* s = value->AsString()) return s->empty();
  if (const Json::Array* array = value->AsArray()) return array->empty();
  if (const Json::Object* members = value->AsObject()) return members->empty();
  return false;
}

StatusOr<int64_t> ReadInt(const Json& object, const IntField& field) {
  const Json* value = FindField(object, field.key);
  if (value == nullptr && field.fallback) return *field.fallback;
  const int64_t* number = value == nullptr ? nullptr : value->AsInt();
  if (number == nullptr || *number < field.min || *number > field.max) {
    return BadField(object, field.key, StrCat("an integer from ", field.min, " to ", field.max));
  }
  return *number;
}

StatusOr<double> ReadNumber(const Json& object, const NumberField& field) {
  const Json* value = FindField(object, field.key);
  if (value == nullptr && field.fallback) return *field.fallback;
  double number = 0;
  if (value == nullptr || !value->AsNumber(&number) || !(number >= field.min) ||
      !(number <= field.max)) {
    return BadField(object, field.key, StrCat("a number from ", field.min, " to ", field.max));
  }
  return number;
}

StatusOr<bool> ReadBool(const Json& object, std::string_view key, bool fallback) {
  const Json* value = FindField(object, key);
  if (value == nullptr) return fallback;
  if (value->AsBool() == nullptr) return BadField(object, key, "true or false");
  return *value->AsBool();
}

StatusOr<std::string> ReadString(const Json& object, std::string_view key,
                                 std::string_view fallback) {
  const Json* value = FindField(object, key);
  if (value == nullptr) return std::string(fallback);
  if (value->AsString() == nullptr) return BadField(object, key, "a string");
  return *value->AsString();
}

std::optional<int32_t> FindPadToken(const Json& object, int64_t vocab_size) {
  const Json* const field = FindField(object, "pad_token_id");
  const int64_t* const id = field == nullptr ? nullptr : field->AsInt();
  if (id == nullptr || *id < 0 || *id >= vocab_size) return std::nullopt;
  return static_cast<int32_t>(*id);
}

Status BadField(const Json& object, std::string_view key, const std::string& expected) {
  return InvalidArgument(StrCat(Describe(object, key), "; expected ", expected));
}

Status UnsupportedField(const Json& object, std::string_view key, const std::string& supported) {
  return Unimplemented(
      StrCat(Describe(object, key), ", which is not supported; supported: ", supported));
}

}  // namespace aril::internal

#include "gateway/json_fields.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace aril::gateway {

const Json* JsonFields::Find(std::string_view name) const {
  const Json* value = object_->Find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool JsonFields::GetBool(std::string_view name, bool fallback) {
  const Json* value = Find(name);
  if (value == nullptr) return fallback;
  if (const bool* b = value->AsBool()) return *b;
  FailKind(name, "a boolean", *value);
  return fallback;
}

int64_t JsonFields::GetInt(std::string_view name, int64_t fallback, int64_t min, int64_t max) {
  return FindInt(name, min, max).value_or(fallback);
}

std::optional<int64_t> JsonFields::FindInt(std::string_view name, int64_t min, int64_t max) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const int64_t* i = value->AsInt();
  if (i == nullptr) {
    FailKind(name, "an integer", *value);
    return std::nullopt;
  }
  if (*i >= min && *i <= max) return *i;
  // Where any int32 or int64 would do, only the bound that was missed says something.
  const bool open_ended = max == INT64_MAX || max == INT32_MAX;
  const std::string range = !open_ended ? StrCat("between ", min, " and ", max)
                            : *i < min  ? StrCat("at least ", min)
                                        : StrCat("at most ", max);
  Fail(name, StrCat("must be ", range, ", not ", *i));
  return std::nullopt;
}

double JsonFields::GetNumber(std::string_view name, double fallback, double min, double max) {
  const Json* value = Find(name);
  if (value == nullptr) return fallback;
  double number = 0;
  if (!value->AsNumber(&number)) {
    FailKind(name, "a number", *value);
    return fallback;
  }
  if (number >= min && number <= max) return number;
  Fail(name, StrCat("must be between ", min, " and ", max, ", not ", value->Dump()));
  return fallback;
}

std::string JsonFields::GetString(std::string_view name, std::string fallback) {
  const Json* value = Find(name);
  if (value == nullptr) return fallback;
  if (const std::string* s = value->AsString()) return *s;
  FailKind(name, "a string", *value);
  return fallback;
}

std::vector<int32_t> JsonFields::GetIntArray(std::string_view name, int32_t min, int32_t max) {
  const Json* value = Find(name);
  if (value == nullptr) return {};
  if (const Json::Array* array = value->AsArray()) {
    if (auto ids = ReadIntArray(*array, min, max)) return *std::move(ids);
    Fail(name, StrCat("must be an array of integers between ", min, " and ", max));
  } else {
    FailKind(name, "an array of integers", *value);
  }
  return {};
}

void JsonFields::AllowOnly(std::span<const std::string_view> names) {
  for (const auto& [name, value] : *object_->AsObject()) {
    if (std::ranges::find(names, name) != names.end()) continue;
    return Fail(name, StrCat("is not known here; the fields are ", Join(names, ", ")));
  }
}

void JsonFields::Fail(std::string_view name, const std::string& message) {
  if (error_) return;
  const std::string field = StrCat(prefix_, name);
  error_ = InvalidField(field, StrCat("`", field, "` ", message, "."));
}

void JsonFields::FailKind(std::string_view name, std::string_view expected, const Json& got) {
  Fail(name, StrCat("must be ", expected, ", not ", got.KindName()));
}

bool IsText(const Json* value, std::string_view text) {
  return value != nullptr && value->AsString() != nullptr && *value->AsString() == text;
}

bool IsEmptyList(const Json* value) {
  return value == nullptr || (value->AsArray() != nullptr && value->AsArray()->empty());
}

bool AsksForNothing(const Json* value) {
  return IsEmptyList(value) || (value->AsBool() != nullptr && !*value->AsBool());
}

void RefuseRenamed(std::span<const RenamedField> renamed, JsonFields& fields) {
  for (const RenamedField& field : renamed) {
    if (AsksForNothing(fields.Find(field.name))) continue;
    fields.Fail(field.name, StrCat("is ", field.here, " here"));
  }
}

std::optional<std::vector<int32_t>> ReadIntArray(const Json::Array& array, int32_t min,
                                                 int32_t max) {
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (const Json& item : array) {
    const int64_t* id = item.AsInt();
    if (id == nullptr || *id < min || *id > max) return std::nullopt;
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

ApiResult<Json> ParseBody(std::string_view body, size_t max_bytes) {
  StatusOr<Json> json = Json::Parse(body, {.max_bytes = max_bytes});
  if (!json.ok()) return FromStatus(Annotate(json.status(), "the request body"));
  if (json->AsObject() == nullptr) {
    return InvalidField("",
                        "The request body must be a JSON object, not " + json->KindName() + ".");
  }
  return *std::move(json);
}

}  // namespace aril::gateway

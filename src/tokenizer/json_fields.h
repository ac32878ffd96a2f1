// Typed access to the members of a JSON object, with errors that name file and field.

#ifndef ARIL_TOKENIZER_JSON_FIELDS_H_
#define ARIL_TOKENIZER_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"

namespace aril {

// A JSON object and where it stands ("/m/tokenizer.json: pre_tokenizer"). Absent members and nulls
// are the same to all of Hugging Face's readers, and to this one. Refers to the Json; cheap to
// copy.
class JsonFields {
 public:
  static StatusOr<JsonFields> Of(const Json& json, std::string where);

  const std::string& where() const { return where_; }
  const Json::Object& members() const { return *json_->AsObject(); }
  // How errors name a member: "/m/tokenizer.json: pre_tokenizer.type".
  std::string PathOf(std::string_view key) const;
  // InvalidArgument "<path> must be <expected>, not <kind>".
  Status WrongType(std::string_view key, const Json& found, std::string_view expected) const;

  // nullptr if absent or null.
  const Json* Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  StatusOr<std::optional<std::string>> OptionalString(std::string_view key) const;
  StatusOr<std::optional<bool>> OptionalBool(std::string_view key) const;
  StatusOr<std::string> String(std::string_view key) const;
  StatusOr<bool> Bool(std::string_view key, bool value_if_absent) const;
  StatusOr<int64_t> Int(std::string_view key) const;
  StatusOr<const Json::Array*> Array(std::string_view key) const;
  StatusOr<JsonFields> Object(std::string_view key) const;

 private:
  JsonFields(const Json* json, std::string where) : json_(json), where_(std::move(where)) {}

  StatusOr<const Json*> Required(std::string_view key, std::string_view expected) const;

  const Json* json_;
  std::string where_;
};

// Parses a JSON file whose root is an object; nullopt if there is no such file.
StatusOr<std::optional<Json>> ReadOptionalObject(const Folder& folder, const std::string& name);

// "<where>[<index>]".
std::string ElementPath(std::string_view where, size_t index);

}  // namespace aril

#endif  // ARIL_TOKENIZER_JSON_FIELDS_H_

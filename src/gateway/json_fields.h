// Reading the fields of a request object: type and range checks whose errors name the field.

#ifndef ARIL_GATEWAY_JSON_FIELDS_H_
#define ARIL_GATEWAY_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "gateway/api_error.h"

namespace aril::gateway {

// The first error is kept and later ones are dropped, so that a parser may read all its fields in a
// row and look at the error once. A field that is null counts as absent. Not thread-safe; the
// object must outlive it.
class JsonFields {
 public:
  // `object` must be an object. `prefix` comes before field names in errors ("stream_options.").
  explicit JsonFields(const Json& object, std::string prefix = "")
      : object_(&object), prefix_(std::move(prefix)) {}

  // The field, or nullptr if it is absent or null.
  const Json* Find(std::string_view name) const;

  // The field, or `fallback` if it is absent or wrong.
  bool GetBool(std::string_view name, bool fallback);
  int64_t GetInt(std::string_view name, int64_t fallback, int64_t min, int64_t max);
  double GetNumber(std::string_view name, double fallback, double min, double max);
  std::string GetString(std::string_view name, std::string fallback);

  std::optional<int64_t> FindInt(std::string_view name, int64_t min, int64_t max);
  // An array of integers in [min, max]; empty if absent.
  std::vector<int32_t> GetIntArray(std::string_view name, int32_t min, int32_t max);

  // Fails if there is a field of another name: where one that is mistyped must not be passed over.
  void AllowOnly(std::span<const std::string_view> names);

  void Fail(std::string_view name, const std::string& message);
  // The error of the fields of an object within this one.
  void Take(const JsonFields& inner) {
    if (!error_.has_value()) error_ = inner.error_;
  }
  bool ok() const { return !error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  void FailKind(std::string_view name, std::string_view expected, const Json& got);

  const Json* object_;
  const std::string prefix_;
  std::optional<ApiError> error_;
};

// Whether a field is there, and this text.
bool IsText(const Json* value, std::string_view text);

// Whether a field is absent, or an array of nothing.
bool IsEmptyList(const Json* value);

// The same, or false.
bool AsksForNothing(const Json* value);

// A field of other endpoints that would do something there, and what it is called here, in words.
struct RenamedField {
  std::string_view name;
  const char* here;
};
// Fails if there is one of them, unless it AsksForNothing.
void RefuseRenamed(std::span<const RenamedField> renamed, JsonFields& fields);

// Elements of `array` as token ids in [min, max]; nullopt if one is something else.
std::optional<std::vector<int32_t>> ReadIntArray(const Json::Array& array, int32_t min,
                                                 int32_t max);

// The object of a request's body, or 400.
ApiResult<Json> ParseBody(std::string_view body, size_t max_bytes);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_JSON_FIELDS_H_

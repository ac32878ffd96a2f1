// Reading a configuration object field by field. Every error names the field, what was found and
// what was expected, because its reader is the one who wrote or downloaded the file.
//
// JSON null counts as absent, as in Python's configuration classes.

#ifndef ARIL_SPEC_FIELDS_H_
#define ARIL_SPEC_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"

namespace aril::internal {

inline constexpr size_t kMaxConfigBytes = 4 << 20;

// The JSON object in a small configuration file (at most kMaxConfigBytes). The path stands in the
// error.
StatusOr<Json> ReadConfigFile(const std::string& path);
StatusOr<Json> ReadConfigFile(const Folder& folder, const std::string& name);

// The member, or nullptr if it is absent or null.
const Json* FindField(const Json& object, std::string_view key);

// Absent, null, false, "", [] or {}: what a configuration says to leave a feature off.
bool IsOff(const Json& object, std::string_view key);

// An integer in [min, max]. Without a fallback the field is required.
struct IntField {
  std::string_view key;
  int64_t min;
  int64_t max;
  std::optional<int64_t> fallback = std::nullopt;
};
StatusOr<int64_t> ReadInt(const Json& object, const IntField& field);

// An integer or decimal number in [min, max]. Without a fallback the field is required.
struct NumberField {
  std::string_view key;
  double min;
  double max;
  std::optional<double> fallback = std::nullopt;
};
StatusOr<double> ReadNumber(const Json& object, const NumberField& field);

StatusOr<bool> ReadBool(const Json& object, std::string_view key, bool fallback);
StatusOr<std::string> ReadString(const Json& object, std::string_view key,
                                 std::string_view fallback);

// "pad_token_id", if it is a token: what is none (-1, in some files) pads nothing.
std::optional<int32_t> FindPadToken(const Json& object, int64_t vocab_size);

// InvalidArgument: `"key" is <found>; expected <expected>`.
Status BadField(const Json& object, std::string_view key, const std::string& expected);
// Unimplemented: `"key" is <found>, which is not supported; supported: <supported>`.
Status UnsupportedField(const Json& object, std::string_view key, const std::string& supported);

}  // namespace aril::internal

#endif  // ARIL_SPEC_FIELDS_H_

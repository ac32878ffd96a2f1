// A strict JSON value: RFC 8259, valid UTF-8, no duplicate keys, bounded depth, size and number of
// values.
//
// nlohmann/json parses (SAX) and stays inside json.cc.

#ifndef ARIL_BASE_JSON_H_
#define ARIL_BASE_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace aril {

struct JsonLimits {
  size_t max_bytes = 16 << 20;
  size_t max_depth = 64;
  // Of scalars, arrays and objects. "0," is two bytes of text but sizeof(Json), some forty, in
  // memory, so max_bytes alone bounds little.
  size_t max_values = 1'000'000;
};

class Json {
 public:
  using Array = std::vector<Json>;
  // In the order of the text. Keys are unique in a parsed value.
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(static_cast<int64_t>(value)) {}
  Json(int64_t value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  // InvalidArgument with the byte offset of what is wrong.
  static StatusOr<Json> Parse(std::string_view text, const JsonLimits& limits = {});

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }

  // The value if it has this type, else nullptr. An integer that does not fit int64 is a double.
  const bool* AsBool() const { return std::get_if<bool>(&value_); }
  const int64_t* AsInt() const { return std::get_if<int64_t>(&value_); }
  const double* AsDouble() const { return std::get_if<double>(&value_); }
  const std::string* AsString() const { return std::get_if<std::string>(&value_); }
  const Array* AsArray() const { return std::get_if<Array>(&value_); }
  const Object* AsObject() const { return std::get_if<Object>(&value_); }
  Array* AsArray() { return std::get_if<Array>(&value_); }
  Object* AsObject() { return std::get_if<Object>(&value_); }

  // True for an integer or a double, whose value goes to `*value`.
  bool AsNumber(double* value) const;

  // The member of an object, or nullptr if this is no object or has no such key. Linear in the size
  // of the object.
  const Json* Find(std::string_view key) const;

  Json* Find(std::string_view key);

  // "a string", "an integer", …: for error messages.
  std::string KindName() const;

  // Compact JSON text. Strings must be valid UTF-8; invalid bytes become U+FFFD. Non-finite doubles
  // become null.
  std::string Dump() const;

 private:
  void DumpTo(std::string* out) const;

  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// Whether the text is JSON (RFC 8259), whatever its depth and size, and also if a name comes twice.
bool IsJson(std::string_view text);

// `text` as a JSON string literal, quotes included; invalid UTF-8 becomes U+FFFD.
std::string JsonQuote(std::string_view text);

}  // namespace aril

#endif  // ARIL_BASE_JSON_H_

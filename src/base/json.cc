#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>

#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace aril {
namespace {

// Of what an error quotes.
constexpr size_t kMaxErrorBytes = 300;

// Builds a Json from parser events; any handler returning false stops the parser.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return Add(Json()); }
  bool boolean(bool value) override { return Add(Json(value)); }
  bool number_integer(number_integer_t value) override { return Add(Json(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
      return Add(Json(static_cast<double>(value)));
    }
    return Add(Json(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override { return Add(Json(value)); }
  bool string(string_t& value) override { return Add(Json(std::move(value))); }
  bool binary(binary_t&) override { return Fail("binary value"); }
  bool start_object(size_t) override { return Open(Json(Json::Object())); }
  bool key(string_t& value) override {
    keys_.back() = std::move(value);
    return true;
  }
  bool end_object() override {
    std::vector<const std::string*> names;
    for (const auto& member : *open_.back().AsObject()) names.push_back(&member.first);
    std::sort(names.begin(), names.end(), [](auto* a, auto* b) { return *a < *b; });
    const auto twice =
        std::adjacent_find(names.begin(), names.end(), [](auto* a, auto* b) { return *a == *b; });
    if (twice != names.end())
      return Fail(
          StrCat("duplicate key ", JsonQuote(std::string_view(**twice).substr(0, kMaxErrorBytes))));
    return Close();
  }
  bool start_array(size_t) override { return Open(Json(Json::Array())); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.…] parse error at line 1, column 2: what; last read: 'token'", or without
    // the place. The token may be as long as the text.
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    if (what.starts_with("parse error at ")) what.remove_prefix(what.find(": ") + 2);
    const bool is_long = what.size() > kMaxErrorBytes;
    return Fail(
        StrCat(what.substr(0, kMaxErrorBytes), is_long ? " …" : "", " (at byte ", position, ")"));
  }

  Json Take() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  bool Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  bool Add(Json value) {
    if (++num_values_ > limits_.max_values) {
      return Fail(StrCat("more than the ", limits_.max_values, " values allowed"));
    }
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Json::Array* array = open_.back().AsArray()) {
      array->push_back(std::move(value));
    } else {
      open_.back().AsObject()->emplace_back(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  bool Open(Json container) {
    if (open_.size() >= limits_.max_depth) {
      return Fail(StrCat("nested deeper than ", limits_.max_depth, " levels"));
    }
    open_.push_back(std::move(container));
    keys_.emplace_back();
    return true;
  }

  bool Close() {
    Json value = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return Add(std::move(value));
  }

  const JsonLimits limits_;
  Json root_;
  std::vector<Json> open_;
  std::vector<std::string> keys_;
  size_t num_values_ = 0;  // finished ones
  std::string error_;
};

// The length of the valid UTF-8 sequence at the head of `text`, or 0.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continuation = [&](size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continuation(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return continuation(1, low, high) && continuation(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return continuation(1, low, high) && continuation(2, 0x80, 0xBF) && continuation(3, 0x80, 0xBF)
               ? 4
               : 0;
  }
  return 0;
}

void QuoteTo(std::string_view text, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
      ++i;
    } else if (c < 0x20) {
      switch (c) {
        case '\n':
          *out += "\\n";
          break;
        case '\t':
          *out += "\\t";
          break;
        case '\r':
          *out += "\\r";
          break;
        default:
          *out += "\\u00";
          out->push_back(kHex[c >> 4]);
          out->push_back(kHex[c & 15]);
      }
      ++i;
    } else if (const size_t length = Utf8Length(text.substr(i)); length > 0) {
      out->append(text.substr(i, length));
      i += length;
    } else {
      *out += "\xEF\xBF\xBD";
      ++i;
    }
  }
  out->push_back('"');
}

template <typename Number>
void NumberTo(Number value, std::string* out) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  out->append(buffer, end);
}

}  // namespace

StatusOr<Json> Json::Parse(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return InvalidArgument(
        StrCat("JSON of ", text.size(), " bytes, more than the ", limits.max_bytes, " allowed"));
  }
  // nlohmann's lexer takes a NUL for the end of the text, and would accept whatever follows.
  if (const size_t nul_at = text.find('\0'); nul_at != std::string_view::npos) {
    return InvalidArgument(StrCat("invalid JSON: a NUL byte (at byte ", nul_at + 1, ")"));
  }
  Builder builder(limits);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return InvalidArgument("invalid JSON: " + builder.error());
  }
  return builder.Take();
}

bool Json::AsNumber(double* value) const {
  if (const double* d = AsDouble()) return *value = *d, true;
  if (const int64_t* i = AsInt()) return *value = static_cast<double>(*i), true;
  return false;
}

const Json* Json::Find(std::string_view key) const { return const_cast<Json*>(this)->Find(key); }

Json* Json::Find(std::string_view key) {
  Object* object = AsObject();
  if (object == nullptr) return nullptr;
  for (auto& [name, value] : *object) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string Json::KindName() const {
  static constexpr const char* kNames[] = {"null",     "a boolean", "an integer", "a number",
                                           "a string", "an array",  "an object"};
  return kNames[value_.index()];
}

std::string Json::Dump() const {
  std::string out;
  DumpTo(&out);
  return out;
}

void Json::DumpTo(std::string* out) const {
  if (const bool* b = AsBool()) {
    *out += *b ? "true" : "false";
  } else if (const int64_t* i = AsInt()) {
    NumberTo(*i, out);
  } else if (const double* d = AsDouble(); d != nullptr && std::isfinite(*d)) {
    const size_t start = out->size();
    NumberTo(*d, out);
    // A whole number must not come back as an integer: "-0" would lose its sign.
    if (out->find_first_of(".e", start) == std::string::npos) *out += ".0";
  } else if (const std::string* s = AsString()) {
    QuoteTo(*s, out);
  } else if (const Array* array = AsArray()) {
    out->push_back('[');
    for (size_t k = 0; k < array->size(); ++k) {
      if (k > 0) out->push_back(',');
      (*array)[k].DumpTo(out);
    }
    out->push_back(']');
  } else if (const Object* object = AsObject()) {
    out->push_back('{');
    for (size_t k = 0; k < object->size(); ++k) {
      if (k > 0) out->push_back(',');
      QuoteTo((*object)[k].first, out);
      out->push_back(':');
      (*object)[k].second.DumpTo(out);
    }
    out->push_back('}');
  } else {
    *out += "null";
  }
}

bool IsJson(std::string_view text) { return nlohmann::json::accept(text); }

std::string JsonQuote(std::string_view text) {
  std::string out;
  QuoteTo(text, &out);
  return out;
}

}  // namespace aril

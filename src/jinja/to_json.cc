#include "jinja/to_json.h"

#include <cmath>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/arithmetic.h"
#include "jinja/compare.h"
#include "jinja/print.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

void AppendUnit(char32_t unit, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  *out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out->push_back(kHex[unit >> shift & 15]);
}

void AppendChar(char32_t c, bool ensure_ascii, std::string* out) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
  static constexpr std::string_view kLetters = "\"\\nrtfb";
  const size_t escape = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
  if (escape != std::string_view::npos) {
    out->push_back('\\');
    out->push_back(kLetters[escape]);
  } else if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
    AppendUnit(c, out);
  } else if (ensure_ascii && c >= 0x10000) {
    AppendUnit(0xD800 + ((c - 0x10000) >> 10), out);
    AppendUnit(0xDC00 + ((c - 0x10000) & 0x3FF), out);
  } else {
    AppendUtf8(c, out);
  }
}

class Writer {
 public:
  Writer(Runtime* runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  Status Write(const Value& value, int level) {
    RETURN_IF_ERROR(runtime_->budget().ChargeSteps());
    if (const String* string = value.AsString()) return WriteString(string->text);
    if (const Sequence* sequence = value.AsSequence()) return WriteArray(*sequence, level);
    if (const Dict* dict = value.AsDict()) return WriteObject(*dict, level);
    const auto atom = Atom(value);
    if (atom) return AppendText(runtime_, *atom, &out_);
    return FailedPrecondition(
        StrCat("Object of type ", value.TypeName(), " is not JSON serializable"));
  }

  std::string Take() { return std::move(out_); }

 private:
  static std::optional<std::string> Atom(const Value& value) {
    if (value.is_none()) return "null";
    if (const bool* b = value.AsBool()) return *b ? "true" : "false";
    if (const int64_t* i = value.AsInt()) return std::to_string(*i);
    const double* d = value.AsFloat();
    if (d == nullptr) return std::nullopt;
    if (std::isnan(*d)) return "NaN";
    if (std::isinf(*d)) return *d < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(*d);
  }

  Status WriteString(std::string_view text) {
    // "\u0001" is the longest escape of a byte.
    RETURN_IF_ERROR(runtime_->budget().ChargeBytes(text.size(), 6));
    out_.push_back('"');
    for (size_t pos = 0; pos < text.size();) {
      AppendChar(NextCodePoint(text, &pos), style_.ensure_ascii, &out_);
    }
    out_.push_back('"');
    return OkStatus();
  }

  Status WriteNewline(int level) {
    if (!style_.indent) return OkStatus();
    RETURN_IF_ERROR(AppendText(runtime_, "\n", &out_));
    ASSIGN_OR_RETURN(const std::string indent, Repeat(runtime_, *style_.indent, level));
    out_ += indent;
    return OkStatus();
  }

  Status WriteArray(const Sequence& sequence, int level) {
    if (sequence.items.empty()) return AppendText(runtime_, "[]", &out_);
    RETURN_IF_ERROR(AppendText(runtime_, "[", &out_));
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) RETURN_IF_ERROR(AppendText(runtime_, style_.item_separator, &out_));
      RETURN_IF_ERROR(WriteNewline(level + 1));
      RETURN_IF_ERROR(Write(sequence.items[i], level + 1));
    }
    RETURN_IF_ERROR(WriteNewline(level));
    return AppendText(runtime_, "]", &out_);
  }

  Status WriteObject(const Dict& dict, int level) {
    if (dict.entries.empty()) return AppendText(runtime_, "{}", &out_);
    ASSIGN_OR_RETURN(const std::vector<Value> keys, Keys(dict));
    RETURN_IF_ERROR(AppendText(runtime_, "{", &out_));
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i > 0) RETURN_IF_ERROR(AppendText(runtime_, style_.item_separator, &out_));
      RETURN_IF_ERROR(WriteNewline(level + 1));
      RETURN_IF_ERROR(WriteKey(keys[i]));
      RETURN_IF_ERROR(AppendText(runtime_, style_.key_separator, &out_));
      const Value* value = &dict.entries[i].second;
      if (style_.sort_keys) {
        ASSIGN_OR_RETURN(value, FindKey(runtime_, dict, keys[i]));
      }
      RETURN_IF_ERROR(Write(*value, level + 1));
    }
    RETURN_IF_ERROR(WriteNewline(level));
    return AppendText(runtime_, "}", &out_);
  }

  StatusOr<std::vector<Value>> Keys(const Dict& dict) {
    std::vector<Value> keys;
    keys.reserve(dict.entries.size());
    for (const auto& [key, value] : dict.entries) keys.push_back(key);
    if (!style_.sort_keys) return keys;
    return SortBy(runtime_, keys, keys, /*descending=*/false);
  }

  Status WriteKey(const Value& key) {
    if (const String* string = key.AsString()) return WriteString(string->text);
    if (const auto atom = Atom(key)) return WriteString(*atom);
    return FailedPrecondition(
        StrCat("keys must be str, int, float, bool or None, not ", key.TypeName()));
  }

  Runtime* const runtime_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

StatusOr<std::string> ToJson(Runtime* runtime, const Value& value, const JsonStyle& style) {
  Writer writer(runtime, style);
  RETURN_IF_ERROR(writer.Write(value, 0));
  return writer.Take();
}

}  // namespace aril::jinja

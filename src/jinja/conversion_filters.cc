// The filters that write other formats: JSON, URLs, XML attributes.

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "jinja/arithmetic.h"
#include "jinja/filters.h"
#include "jinja/iterate.h"
#include "jinja/print.h"
#include "jinja/runtime.h"
#include "jinja/text.h"
#include "jinja/to_json.h"

namespace aril::jinja {
namespace {

// The filter of transformers (chat_template_utils.py), not that of Jinja, which escapes HTML.
StatusOr<Value> ToJsonFilter(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  JsonStyle style;
  ASSIGN_OR_RETURN(style.ensure_ascii, arguments.Bool(0, false));
  ASSIGN_OR_RETURN(style.sort_keys, arguments.Bool(3, false));
  if (const String* indent = arguments[1].AsString()) {
    style.indent = indent->text;
  } else if (!arguments[1].is_none()) {
    ASSIGN_OR_RETURN(const int64_t width, arguments.Int(1, 0));
    ASSIGN_OR_RETURN(style.indent, Repeat(runtime, " ", width));
  }
  if (style.indent) style.item_separator = ",";
  if (!arguments[2].is_none()) {
    ASSIGN_OR_RETURN(const std::vector<Value> separators, ToVector(runtime, arguments[2]));
    if (separators.size() != 2 || separators[0].AsString() == nullptr ||
        separators[1].AsString() == nullptr) {
      return FailedPrecondition("tojson(): separators must be two strings");
    }
    style.item_separator = separators[0].AsString()->text;
    style.key_separator = separators[1].AsString()->text;
  }
  ASSIGN_OR_RETURN(std::string text, ToJson(runtime, self, style));
  return runtime->NewString(std::move(text));
}

std::string QuoteUrl(std::string_view text, bool in_query) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
    if (is_plain || (c == '/' && !in_query)) {
      out.push_back(c);
    } else if (c == ' ' && in_query) {
      out.push_back('+');
    } else {
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

Status AppendQuoted(Runtime* runtime, const Value& value, bool in_query, std::string* out) {
  ASSIGN_OR_RETURN(const Value text, ToStr(runtime, value));
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(text.AsString()->text.size(), 3));
  *out += QuoteUrl(text.AsString()->text, in_query);
  return OkStatus();
}

StatusOr<Value> UrlEncode(Runtime* runtime, const Value& self, const CallArguments&) {
  std::string out;
  if (self.AsString() != nullptr || Iterate(self) == nullptr) {
    RETURN_IF_ERROR(AppendQuoted(runtime, self, /*in_query=*/false, &out));
    return runtime->NewString(std::move(out));
  }
  const bool is_dict = self.AsDict() != nullptr;
  const IteratorPtr pairs =
      is_dict ? std::make_shared<DictView>(self, DictView::Kind::kItems)->Iterate() : Iterate(self);
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Value> pair, pairs->Next(runtime));
    if (!pair) break;
    ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(runtime, *pair));
    if (items.size() != 2) return FailedPrecondition("urlencode() wants pairs");
    if (!out.empty()) out.push_back('&');
    RETURN_IF_ERROR(AppendQuoted(runtime, items[0], /*in_query=*/true, &out));
    out.push_back('=');
    RETURN_IF_ERROR(AppendQuoted(runtime, items[1], /*in_query=*/true, &out));
  }
  return runtime->NewString(std::move(out));
}

StatusOr<Value> XmlAttributes(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  RETURN_IF_ERROR(CheckDefined(self, self));
  if (self.AsDict() == nullptr) {
    return FailedPrecondition(StrCat("xmlattr() wants a dict, not ", self.TypeName()));
  }
  ASSIGN_OR_RETURN(const bool begins_with_space, arguments.Bool(0, true));
  const Function* escape = FindFilter("escape");
  std::string out;
  for (const auto& [key, value] : self.AsDict()->entries) {
    if (value.is_none() || value.is_undefined()) continue;
    ASSIGN_OR_RETURN(const Value name, CallFunction(runtime, *escape, key, {}));
    if (name.AsString()->text.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      return FailedPrecondition(
          StrCat("Invalid character in attribute name: ", QuoteAsPython(name.AsString()->text)));
    }
    ASSIGN_OR_RETURN(const Value text, CallFunction(runtime, *escape, value, {}));
    if (begins_with_space || !out.empty()) out.push_back(' ');
    out += StrCat(name.AsString()->text, "=\"", text.AsString()->text, "\"");
  }
  return runtime->NewString(std::move(out));
}

constexpr std::array kFilters = {
    Function{"tojson", ToJsonFilter, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    Function{"urlencode", UrlEncode},
    Function{"xmlattr", XmlAttributes, {"autospace"}},
};

}  // namespace

std::span<const Function> ConversionFilters() { return kFilters; }

}  // namespace aril::jinja

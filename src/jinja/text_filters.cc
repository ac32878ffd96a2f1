// The filters on strings; what is none is converted first.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/arithmetic.h"
#include "jinja/filters.h"
#include "jinja/percent_format.h"
#include "jinja/print.h"
#include "jinja/runtime.h"
#include "jinja/split.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

template <std::string (*kMap)(std::string_view)>
StatusOr<Value> Mapped(Runtime* runtime, const Value& self, const CallArguments&) {
  ASSIGN_OR_RETURN(const Value text, ToStr(runtime, self));
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(text.AsString()->text.size(), 2));
  RETURN_IF_ERROR(runtime->budget().ChargeCodePoints(text.AsString()->text.size()));
  return runtime->NewString(kMap(text.AsString()->text));
}

// Words begin behind spaces, hyphens and opening brackets, unlike those of str.title.
std::string TitleWords(std::string_view text) {
  std::string out;
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    if (end == begin) return;
    size_t second = begin;
    NextCodePoint(text, &second);
    out += ToUpper(text.substr(begin, second - begin));
    out += ToLower(text.substr(second, end - second));
  };
  for (size_t pos = 0; pos < text.size();) {
    const size_t here = pos;
    const char32_t c = NextCodePoint(text, &pos);
    const bool separates = IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (!separates) continue;
    add_word(here);
    out += text.substr(here, pos - here);
    begin = pos;
  }
  add_word(text.size());
  return out;
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

StatusOr<Value> Escape(Runtime* runtime, const Value& self, const CallArguments&) {
  ASSIGN_OR_RETURN(const Value text, ToStr(runtime, self));
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(text.AsString()->text.size(), 5));
  return runtime->NewString(EscapeHtml(text.AsString()->text));
}

StatusOr<Value> Text(Runtime* runtime, const Value& self, const CallArguments&) {
  return ToStr(runtime, self);
}

StatusOr<Value> Trim(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const Value value, ToStr(runtime, self));
  ASSIGN_OR_RETURN(const auto chars, arguments.OptionalText(0));
  const std::string& text = value.AsString()->text;
  const size_t num_chars = chars ? std::min(chars->size(), size_t{1} << 20) : 1;
  RETURN_IF_ERROR(runtime->budget().ChargeScan(text.size() * num_chars));
  return runtime->NewString(std::string(StripRight(StripLeft(text, chars), chars)));
}

StatusOr<Value> ReplaceFilter(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const Value text, ToStr(runtime, self));
  ASSIGN_OR_RETURN(const Value old_text, ToStr(runtime, arguments[0]));
  ASSIGN_OR_RETURN(const Value new_text, ToStr(runtime, arguments[1]));
  int64_t count = -1;
  if (!arguments[2].is_none()) {
    ASSIGN_OR_RETURN(count, arguments.Int(2, -1));
  }
  ASSIGN_OR_RETURN(std::string replaced,
                   Replace(runtime, text.AsString()->text, old_text.AsString()->text,
                           new_text.AsString()->text, count));
  return runtime->NewString(std::move(replaced));
}

StatusOr<Value> Center(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const Value text, ToStr(runtime, self));
  ASSIGN_OR_RETURN(const int64_t width, arguments.Int(0, 80));
  const auto length = static_cast<int64_t>(text.AsString()->length);
  if (width <= length) return text;
  const int64_t missing = width - length;
  const int64_t left = missing / 2 + (missing & width & 1);  // as str.center
  ASSIGN_OR_RETURN(const std::string before, Repeat(runtime, " ", left));
  ASSIGN_OR_RETURN(const std::string after, Repeat(runtime, " ", missing - left));
  return runtime->NewString(before + text.AsString()->text + after);
}

StatusOr<Value> Format(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const Value format, ToStr(runtime, self));
  const Arguments& given = arguments.rest();
  if (!given.positional.empty() && !given.keyword.empty()) {
    return FailedPrecondition("can't handle positional and keyword arguments at the same time");
  }
  Dict::Entries entries;
  for (const auto& [name, value] : given.keyword) {
    ASSIGN_OR_RETURN(Value key, runtime->NewString(name));
    entries.emplace_back(std::move(key), value);
  }
  ASSIGN_OR_RETURN(const Value values, entries.empty() ? runtime->NewTuple(given.positional)
                                                       : runtime->NewDict(std::move(entries)));
  ASSIGN_OR_RETURN(std::string text, PercentFormat(runtime, format.AsString()->text, values));
  return runtime->NewString(std::move(text));
}

StatusOr<Value> Indent(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  RETURN_IF_ERROR(CheckDefined(self, self));
  if (self.AsString() == nullptr) {
    return FailedPrecondition(StrCat("indent() wants a string, not ", self.TypeName()));
  }
  std::string indent;
  if (const String* width = arguments[0].AsString()) {
    indent = width->text;
  } else {
    ASSIGN_OR_RETURN(const int64_t num_spaces, arguments.Int(0, 4));
    ASSIGN_OR_RETURN(indent, Repeat(runtime, " ", num_spaces));
  }
  ASSIGN_OR_RETURN(const bool first, arguments.Bool(1, false));
  ASSIGN_OR_RETURN(const bool blank, arguments.Bool(2, false));
  const std::string& text = self.AsString()->text;
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(text.size(), 2));
  std::string out;
  // A last line that is empty counts.
  const std::string with_end = text + "\n";
  bool is_first = true;
  for (const std::string_view line : SplitLines(with_end, /*keep_ends=*/false)) {
    if (!is_first) out.push_back('\n');
    if (is_first ? first : blank || !line.empty()) {
      RETURN_IF_ERROR(AppendText(runtime, indent, &out));
    }
    out += line;
    is_first = false;
  }
  return runtime->NewString(std::move(out));
}

StatusOr<Value> Truncate(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  RETURN_IF_ERROR(CheckDefined(self, self));
  const String* string = self.AsString();
  if (string == nullptr) {
    return FailedPrecondition(StrCat("truncate() wants a string, not ", self.TypeName()));
  }
  ASSIGN_OR_RETURN(const int64_t length, arguments.Int(0, 255));
  ASSIGN_OR_RETURN(const bool cuts_words, arguments.Bool(1, false));
  ASSIGN_OR_RETURN(const auto given_end, arguments.OptionalText(2));
  int64_t leeway = 5;
  if (!arguments[3].is_none()) {
    ASSIGN_OR_RETURN(leeway, arguments.Int(3, 5));
  }
  const std::string_view end = given_end.value_or("...");
  const auto end_length = static_cast<int64_t>(NumCodePoints(end));
  if (length < end_length) {
    return FailedPrecondition(StrCat("expected length >= ", end_length, ", got ", length));
  }
  if (leeway < 0) return FailedPrecondition(StrCat("expected leeway >= 0, got ", leeway));
  if (static_cast<int64_t>(string->length) - length <= leeway) return self;
  RETURN_IF_ERROR(runtime->budget().ChargeScan(string->text.size()));
  std::string_view kept =
      std::string_view(string->text)
          .substr(0, ByteOffset(*string, static_cast<size_t>(length - end_length)));
  if (!cuts_words) kept = kept.substr(0, kept.rfind(' '));
  return runtime->NewString(StrCat(kept, end));
}

StatusOr<Value> CountWords(Runtime* runtime, const Value& self, const CallArguments&) {
  ASSIGN_OR_RETURN(const Value value, ToStr(runtime, self));
  const std::string& text = value.AsString()->text;
  RETURN_IF_ERROR(runtime->budget().ChargeCodePoints(text.size()));
  int64_t count = 0;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const size_t here = pos;
    NextCodePoint(text, &pos);
    const std::string_view c = std::string_view(text).substr(here, pos - here);
    const bool is_word = IsAll(c, CharKind::kAlnum) || c == "_";
    count += is_word && !in_word ? 1 : 0;
    in_word = is_word;
  }
  return Value(count);
}

constexpr std::array kFilters = {
    Function{"upper", Mapped<ToUpper>},
    Function{"lower", Mapped<ToLower>},
    Function{"capitalize", Mapped<Capitalize>},
    Function{"title", Mapped<TitleWords>},
    Function{"escape", Escape},
    Function{"e", Escape},
    Function{"forceescape", Escape},
    // Nothing is escaped unless a filter is asked to, so that nothing needs to be marked as safe.
    Function{"safe", Text},
    Function{"string", Text},
    Function{"trim", Trim, {"chars"}},
    Function{"replace", ReplaceFilter, {"old", "new", "count"}, 2},
    Function{"center", Center, {"width"}},
    Function{.name = "format", .body = Format, .is_variadic = true},
    Function{"indent", Indent, {"width", "first", "blank"}},
    Function{"truncate", Truncate, {"length", "killwords", "end", "leeway"}},
    Function{"wordcount", CountWords},
};

}  // namespace

std::span<const Function> TextFilters() { return kFilters; }

}  // namespace aril::jinja

// The methods of str.

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/arithmetic.h"
#include "jinja/brace_format.h"
#include "jinja/iterate.h"
#include "jinja/methods.h"
#include "jinja/print.h"
#include "jinja/runtime.h"
#include "jinja/split.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

const std::string& TextOf(const Value& self) { return self.AsString()->text; }

template <std::string (*kMap)(std::string_view)>
StatusOr<Value> Mapped(Runtime* runtime, const Value& self, const CallArguments&) {
  // ß and İ grow, to no more than twice their size.
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(TextOf(self).size(), 2));
  RETURN_IF_ERROR(runtime->budget().ChargeCodePoints(TextOf(self).size()));
  return runtime->NewString(kMap(TextOf(self)));
}

template <bool (*kIs)(std::string_view)>
StatusOr<Value> Is(Runtime* runtime, const Value& self, const CallArguments&) {
  RETURN_IF_ERROR(runtime->budget().ChargeCodePoints(TextOf(self).size()));
  return Value(kIs(TextOf(self)));
}

template <CharKind kKind>
bool IsAllOf(std::string_view text) {
  return IsAll(text, kKind);
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool IsAllPrintable(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    if (!IsPrintable(NextCodePoint(text, &pos))) return false;
  }
  return true;
}

bool IsIdentifier(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    if (!IsIdentifierPart(NextCodePoint(text, &pos))) return false;
  }
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9');
}

template <bool kLeft, bool kRight>
StatusOr<Value> Strip(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const auto chars, arguments.OptionalText(0));
  std::string_view text = TextOf(self);
  RETURN_IF_ERROR(runtime->budget().ChargeScan(
      text.size() * (chars ? std::min(chars->size(), size_t{1} << 20) : 1)));
  if (kLeft) text = StripLeft(text, chars);
  if (kRight) text = StripRight(text, chars);
  return runtime->NewString(std::string(text));
}

// A part of the text, by the optional arguments `start` and `end`; nullopt if start lies behind.
StatusOr<std::optional<std::string_view>> Part(Runtime* runtime, const Value& self,
                                               const CallArguments& arguments, size_t* begin) {
  const String& string = *self.AsString();
  const bool is_whole = arguments[1].is_none() && arguments[2].is_none();
  if (!is_whole) RETURN_IF_ERROR(runtime->budget().ChargeScan(string.text.size()));
  const auto length = static_cast<int64_t>(string.length);
  int64_t bounds[] = {0, length};
  for (size_t i = 0; i < 2; ++i) {
    if (arguments[1 + i].is_none()) continue;
    ASSIGN_OR_RETURN(bounds[i], arguments.Int(1 + i, 0));
    if (bounds[i] < 0) bounds[i] = std::max<int64_t>(bounds[i] + length, 0);
  }
  if (bounds[0] > length) return std::optional<std::string_view>();
  *begin = ByteOffset(string, static_cast<size_t>(bounds[0]));
  const size_t end = ByteOffset(string, static_cast<size_t>(std::min(bounds[1], length)));
  if (end < *begin) return std::optional<std::string_view>();
  return std::optional<std::string_view>(
      std::string_view(string.text).substr(*begin, end - *begin));
}

StatusOr<Value> FindIn(Runtime* runtime, const Value& self, const CallArguments& arguments,
                       bool from_right) {
  ASSIGN_OR_RETURN(const std::string_view needle, arguments.Text(0));
  RETURN_IF_ERROR(runtime->budget().ChargeScan(TextOf(self).size()));
  size_t begin = 0;
  ASSIGN_OR_RETURN(const auto part, Part(runtime, self, arguments, &begin));
  if (!part) return Value(int64_t{-1});
  size_t found = std::string_view::npos;
  if (from_right) {
    ASSIGN_OR_RETURN(found, FindLast(runtime, *part, needle));
  } else {
    found = FindText(*part, needle);
  }
  if (found == std::string_view::npos) return Value(int64_t{-1});
  return Value(static_cast<int64_t>(CodePointIndex(*self.AsString(), begin + found)));
}

template <bool kFromRight>
StatusOr<Value> Find(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  return FindIn(runtime, self, arguments, kFromRight);
}

template <bool kFromRight>
StatusOr<Value> Index(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(Value index, FindIn(runtime, self, arguments, kFromRight));
  if (*index.AsInt() < 0) return FailedPrecondition("substring not found");
  return index;
}

StatusOr<Value> Count(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view needle, arguments.Text(0));
  RETURN_IF_ERROR(runtime->budget().ChargeScan(TextOf(self).size()));
  size_t begin = 0;
  ASSIGN_OR_RETURN(const auto part, Part(runtime, self, arguments, &begin));
  if (!part) return Value(int64_t{0});
  if (needle.empty()) return Value(static_cast<int64_t>(NumCodePoints(*part)) + 1);
  int64_t count = 0;
  for (size_t pos = FindText(*part, needle); pos != std::string_view::npos;
       pos = FindText(*part, needle, pos + needle.size())) {
    ++count;
    // Each search prepares the needle anew.
    RETURN_IF_ERROR(runtime->budget().ChargeScan(needle.size()));
  }
  return Value(count);
}

// Whether the text begins or ends with the argument, or one of a tuple.
template <bool kAtEnd>
StatusOr<Value> Affix(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  const Sequence* tuple = arguments[0].AsSequence();
  const bool is_tuple = tuple != nullptr && tuple->kind != Sequence::Kind::kList;
  const std::vector<Value> affixes = is_tuple ? tuple->items : std::vector<Value>{arguments[0]};
  size_t begin = 0;
  ASSIGN_OR_RETURN(const auto part, Part(runtime, self, arguments, &begin));
  for (const Value& affix : affixes) {
    RETURN_IF_ERROR(runtime->budget().ChargeSteps());
    RETURN_IF_ERROR(CheckDefined(affix, affix));
    if (affix.AsString() == nullptr) {
      return FailedPrecondition(StrCat(kAtEnd ? "endswith" : "startswith",
                                       " first arg must be str or a tuple of str, not ",
                                       affix.TypeName()));
    }
    const std::string& text = TextOf(affix);
    RETURN_IF_ERROR(runtime->budget().ChargeScan(text.size()));
    if (part && (kAtEnd ? part->ends_with(text) : part->starts_with(text))) return Value(true);
  }
  return Value(false);
}

template <bool kAtEnd>
StatusOr<Value> RemoveAffix(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view affix, arguments.Text(0));
  std::string_view text = TextOf(self);
  if (kAtEnd ? !text.ends_with(affix) : !text.starts_with(affix)) return self;
  text = kAtEnd ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size());
  return runtime->NewString(std::string(text));
}

StatusOr<Value> ReplaceMethod(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view old_text, arguments.Text(0));
  ASSIGN_OR_RETURN(const std::string_view new_text, arguments.Text(1));
  ASSIGN_OR_RETURN(const int64_t count, arguments.Int(2, -1));
  ASSIGN_OR_RETURN(std::string text, Replace(runtime, TextOf(self), old_text, new_text, count));
  return runtime->NewString(std::move(text));
}

template <bool kFromRight>
StatusOr<Value> SplitMethod(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const auto separator, arguments.OptionalText(0));
  ASSIGN_OR_RETURN(const int64_t max_splits, arguments.Int(1, -1));
  ASSIGN_OR_RETURN(const auto parts,
                   Split(runtime, TextOf(self), separator, max_splits, kFromRight));
  return NewListOfTexts(runtime, parts);
}

StatusOr<Value> SplitLinesMethod(Runtime* runtime, const Value& self,
                                 const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const bool keep_ends, arguments.Bool(0, false));
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(TextOf(self).size()));
  return NewListOfTexts(runtime, SplitLines(TextOf(self), keep_ends));
}

template <bool kFromRight>
StatusOr<Value> Partition(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view separator, arguments.Text(0));
  if (separator.empty()) return FailedPrecondition("empty separator");
  const std::string_view text = TextOf(self);
  RETURN_IF_ERROR(runtime->budget().ChargeScan(text.size()));
  size_t found = FindText(text, separator);
  if (kFromRight) {
    ASSIGN_OR_RETURN(found, FindLast(runtime, text, separator));
  }
  std::array<std::string_view, 3> parts;
  if (found == std::string_view::npos) {
    parts[kFromRight ? 2 : 0] = text;
  } else {
    parts = {text.substr(0, found), separator, text.substr(found + separator.size())};
  }
  std::vector<Value> items;
  for (const std::string_view part : parts) {
    ASSIGN_OR_RETURN(Value item, runtime->NewString(std::string(part)));
    items.push_back(std::move(item));
  }
  return runtime->NewTuple(std::move(items));
}

StatusOr<Value> JoinMethod(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(runtime, arguments[0]));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].AsString() == nullptr) {
      return FailedPrecondition(
          StrCat("sequence item ", i, ": expected str instance, ", items[i].TypeName(), " found"));
    }
    if (i > 0) RETURN_IF_ERROR(AppendText(runtime, TextOf(self), &out));
    RETURN_IF_ERROR(AppendText(runtime, TextOf(items[i]), &out));
  }
  return runtime->NewString(std::move(out));
}

// How str.center divides what is odd (CPython's unicode_center).
int64_t LeftOfCenter(int64_t missing, int64_t width) { return missing / 2 + (missing & width & 1); }

template <char kAlign>
StatusOr<Value> Justify(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t width, arguments.Int(0, 0));
  ASSIGN_OR_RETURN(const auto fill, arguments.OptionalText(1));
  if (fill && NumCodePoints(*fill) != 1) {
    return FailedPrecondition("The fill character must be exactly one character long");
  }
  const auto length = static_cast<int64_t>(self.AsString()->length);
  if (width <= length) return self;
  const int64_t missing = width - length;
  const int64_t left = kAlign == '<' ? 0 : kAlign == '>' ? missing : LeftOfCenter(missing, width);
  ASSIGN_OR_RETURN(const std::string before, Repeat(runtime, fill.value_or(" "), left));
  ASSIGN_OR_RETURN(const std::string after, Repeat(runtime, fill.value_or(" "), missing - left));
  return runtime->NewString(before + TextOf(self) + after);
}

StatusOr<Value> ZeroFill(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t width, arguments.Int(0, 0));
  const std::string& text = TextOf(self);
  const auto length = static_cast<int64_t>(self.AsString()->length);
  if (width <= length) return self;
  ASSIGN_OR_RETURN(const std::string zeros, Repeat(runtime, "0", width - length));
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  return runtime->NewString(StrCat(text.substr(0, sign), zeros, text.substr(sign)));
}

StatusOr<Value> ExpandTabs(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t tab_size, arguments.Int(0, 8));
  const std::string& text = TextOf(self);
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(text.size()));
  std::string out;
  int64_t column = 0;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, &pos);
    if (c != '\t') {
      AppendUtf8(c, &out);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    } else if (tab_size > 0) {
      const int64_t missing = tab_size - column % tab_size;
      ASSIGN_OR_RETURN(const std::string spaces, Repeat(runtime, " ", missing));
      out += spaces;
      column += missing;
    }
  }
  return runtime->NewString(std::move(out));
}

StatusOr<Value> FormatMethod(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(std::string text, BraceFormat(runtime, TextOf(self), arguments.rest()));
  return runtime->NewString(std::move(text));
}

StatusOr<Value> FormatMap(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  Arguments fields;
  if (arguments[0].AsDict() == nullptr) return FailedPrecondition("format_map() wants a dict");
  for (const auto& [key, value] : arguments[0].AsDict()->entries) {
    if (key.AsString() != nullptr) fields.keyword.emplace_back(TextOf(key), value);
  }
  ASSIGN_OR_RETURN(std::string text, BraceFormat(runtime, TextOf(self), fields));
  return runtime->NewString(std::move(text));
}

constexpr std::array kMethods = {
    Function{"strip", Strip<true, true>, {"chars"}},
    Function{"lstrip", Strip<true, false>, {"chars"}},
    Function{"rstrip", Strip<false, true>, {"chars"}},
    Function{"split", SplitMethod<false>, {"sep", "maxsplit"}},
    Function{"rsplit", SplitMethod<true>, {"sep", "maxsplit"}},
    Function{"splitlines", SplitLinesMethod, {"keepends"}},
    Function{"partition", Partition<false>, {"sep"}, 1},
    Function{"rpartition", Partition<true>, {"sep"}, 1},
    Function{"startswith", Affix<false>, {"prefix", "start", "end"}, 1},
    Function{"endswith", Affix<true>, {"suffix", "start", "end"}, 1},
    Function{"removeprefix", RemoveAffix<false>, {"prefix"}, 1},
    Function{"removesuffix", RemoveAffix<true>, {"suffix"}, 1},
    Function{"replace", ReplaceMethod, {"old", "new", "count"}, 2},
    Function{"find", Find<false>, {"sub", "start", "end"}, 1},
    Function{"rfind", Find<true>, {"sub", "start", "end"}, 1},
    Function{"index", Index<false>, {"sub", "start", "end"}, 1},
    Function{"rindex", Index<true>, {"sub", "start", "end"}, 1},
    Function{"count", Count, {"sub", "start", "end"}, 1},
    Function{"join", JoinMethod, {"iterable"}, 1},
    Function{.name = "format", .body = FormatMethod, .is_variadic = true},
    Function{"format_map", FormatMap, {"mapping"}, 1},
    Function{"upper", Mapped<ToUpper>},
    Function{"lower", Mapped<ToLower>},
    Function{"casefold", Mapped<ToLower>},
    Function{"title", Mapped<ToTitle>},
    Function{"capitalize", Mapped<Capitalize>},
    Function{"swapcase", Mapped<SwapCase>},
    Function{"isupper", Is<IsUpper>},
    Function{"islower", Is<IsLower>},
    Function{"istitle", Is<IsTitle>},
    Function{"isspace", Is<IsAllOf<CharKind::kSpace>>},
    Function{"isalpha", Is<IsAllOf<CharKind::kAlpha>>},
    Function{"isalnum", Is<IsAllOf<CharKind::kAlnum>>},
    Function{"isdigit", Is<IsAllOf<CharKind::kDigit>>},
    Function{"isdecimal", Is<IsAllOf<CharKind::kDecimal>>},
    Function{"isnumeric", Is<IsAllOf<CharKind::kNumeric>>},
    Function{"isascii", Is<IsAscii>},
    Function{"isprintable", Is<IsAllPrintable>},
    Function{"isidentifier", Is<IsIdentifier>},
    Function{"center", Justify<'^'>, {"width", "fillchar"}, 1},
    Function{"ljust", Justify<'<'>, {"width", "fillchar"}, 1},
    Function{"rjust", Justify<'>'>, {"width", "fillchar"}, 1},
    Function{"zfill", ZeroFill, {"width"}, 1},
    Function{"expandtabs", ExpandTabs, {"tabsize"}},
};

}  // namespace

std::span<const Function> StringMethods() { return kMethods; }

}  // namespace aril::jinja

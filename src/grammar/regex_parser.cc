#include "grammar/regex_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "grammar/hex.h"

namespace aril::grammar {
namespace {

// Groups within groups: what the parser's and the builder's stacks hold.
constexpr int kMaxDepth = 64;
// Of a quantifier. Far more than a grammar has room for.
constexpr int64_t kMaxCount = 1'000'000;

using Ranges = std::vector<CodePointRange>;

const Ranges& Digits() {
  static const Ranges ranges = {{'0', '9'}};
  return ranges;
}

const Ranges& WordCharacters() {
  static const Ranges ranges = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return ranges;
}

// ECMA-262, 12.2 and 12.3.
const Ranges& Spaces() {
  static const Ranges ranges = {
      {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
      {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return ranges;
}

const Ranges& LineEnds() {
  static const Ranges ranges = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return ranges;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  StatusOr<ParsedRegex> Parse() {
    do {
      RegexAlternative alternative;
      alternative.is_held_at_start = Take('^');
      ASSIGN_OR_RETURN(alternative.part, Sequence(0));
      alternative.is_held_at_end = Take('$');
      result_.alternatives.push_back(alternative);
      if (!AtEnd() && !At('|')) {
        return Wrong(At(')') ? "a `)` that nothing opens"
                             : "`^` and `$` are supported only where the expression, or an "
                               "alternative that is not in a group, begins and ends");
      }
    } while (Take('|'));
    return std::move(result_);
  }

 private:
  bool AtEnd() const { return pos_ == text_.size(); }
  bool At(char c) const { return !AtEnd() && text_[pos_] == c; }
  bool Take(char c) {
    if (!At(c)) return false;
    ++pos_;
    return true;
  }
  bool TakeText(std::string_view text) {
    if (text_.substr(pos_, text.size()) != text) return false;
    pos_ += text.size();
    return true;
  }
  Status Wrong(std::string_view what) const {
    return InvalidArgument(StrCat("at byte ", pos_, ": ", what));
  }
  RegexIdx Add(RegexPart part) {
    result_.parts.push_back(std::move(part));
    return result_.parts.size() - 1;
  }

  // Up to what ends a sequence: | ) ^ $ or the end.
  StatusOr<RegexIdx> Sequence(int depth) {
    RegexPart sequence = {.kind = RegexPart::Kind::kSequence};
    while (!AtEnd() && !At('|') && !At(')') && !At('^') && !At('$')) {
      ASSIGN_OR_RETURN(const RegexIdx atom, Atom(depth));
      ASSIGN_OR_RETURN(const RegexIdx part, Quantified(atom));
      sequence.parts.push_back(part);
    }
    return Add(std::move(sequence));
  }

  StatusOr<RegexIdx> Atom(int depth) {
    if (Take('(')) return Group(depth + 1);
    if (Take('[')) return Class();
    if (Take('.')) return Characters(Complement(LineEnds()));
    if (Take('\\')) {
      ASSIGN_OR_RETURN(Ranges ranges, Escape());
      return Characters(std::move(ranges));
    }
    if (At('*') || At('+') || At('?')) return Wrong("a quantifier that follows nothing");
    if (At('{') || At('}') || At(']')) {
      return Wrong(StrCat("`", text_[pos_], "` must be escaped where it stands for itself"));
    }
    const uint32_t c = NextCodePoint(text_, &pos_);
    return Characters({{c, c}});
  }

  StatusOr<RegexIdx> Characters(Ranges ranges) {
    return Add({.kind = RegexPart::Kind::kCharacter, .characters = std::move(ranges)});
  }

  StatusOr<RegexIdx> Group(int depth) {
    if (depth > kMaxDepth) return Wrong(StrCat("groups are nested more than ", kMaxDepth, " deep"));
    RETURN_IF_ERROR(SkipGroupName());
    RegexPart group = {.kind = RegexPart::Kind::kAlternatives};
    do {
      ASSIGN_OR_RETURN(const RegexIdx part, Sequence(depth));
      group.parts.push_back(part);
    } while (Take('|'));
    if (At('^') || At('$')) {
      return Wrong("`^` and `$` are not supported in groups; put them around the group");
    }
    if (!Take(')')) return Wrong("a `)` is missing");
    return Add(std::move(group));
  }

  // Behind the `(`.
  Status SkipGroupName() {
    if (!At('?')) return OkStatus();
    if (TakeText("?:")) return OkStatus();
    const bool is_named = (TakeText("?P<") || TakeText("?<")) && !At('=') && !At('!');
    if (!is_named) {
      return Wrong("look-around, flags and other `(?…` groups are not supported, but (?:…) is");
    }
    while (!AtEnd() && !At('>')) ++pos_;
    return Take('>') ? OkStatus() : Wrong("the name of a group has no `>`");
  }

  StatusOr<RegexIdx> Quantified(RegexIdx atom) {
    RegexPart repeat = {.kind = RegexPart::Kind::kRepeat, .parts = {atom}};
    if (Take('*')) {
      repeat.min = 0;
    } else if (Take('+')) {
      repeat.min = 1;
    } else if (Take('?')) {
      repeat.max = 1;
    } else if (Take('{')) {
      RETURN_IF_ERROR(ReadCounts(&repeat));
    } else {
      return atom;
    }
    Take('?');  // lazy: the same texts
    if (At('+')) return Wrong("possessive quantifiers are not supported");
    if (At('*') || At('?') || At('{')) return Wrong("a quantifier that follows a quantifier");
    return Add(std::move(repeat));
  }

  // Behind the `{`.
  Status ReadCounts(RegexPart* repeat) {
    ASSIGN_OR_RETURN(repeat->min, ReadCount());
    repeat->max = repeat->min;
    if (Take(',')) {
      repeat->max = RegexPart::kUnbounded;
      if (!At('}')) {
        ASSIGN_OR_RETURN(repeat->max, ReadCount());
        if (repeat->max < repeat->min) return Wrong("the second number is less than the first");
      }
    }
    return Take('}') ? OkStatus() : Wrong("a `}` is missing");
  }

  StatusOr<int64_t> ReadCount() {
    if (AtEnd() || text_[pos_] < '0' || text_[pos_] > '9') {
      return Wrong("a number is missing; a `{` that stands for itself must be escaped");
    }
    int64_t count = 0;
    for (; !AtEnd() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_) {
      count = count * 10 + (text_[pos_] - '0');
      if (count > kMaxCount) return Wrong(StrCat("a number is larger than ", kMaxCount));
    }
    return count;
  }

  // Behind the `[`.
  StatusOr<RegexIdx> Class() {
    const bool is_negated = Take('^');
    Ranges ranges;
    while (!Take(']')) {
      if (AtEnd()) return Wrong("a `]` is missing");
      RETURN_IF_ERROR(ClassMember(&ranges));
    }
    ranges = Normalized(std::move(ranges));
    if (is_negated) ranges = Complement(ranges);
    if (ranges.empty()) return Wrong("a class without a character matches nothing");
    return Characters(std::move(ranges));
  }

  Status ClassMember(Ranges* ranges) {
    ASSIGN_OR_RETURN(const Ranges first, ClassCharacter());
    const bool is_range = At('-') && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']';
    if (!is_range) {
      ranges->insert(ranges->end(), first.begin(), first.end());
      return OkStatus();
    }
    Take('-');
    ASSIGN_OR_RETURN(const Ranges last, ClassCharacter());
    if (!IsOne(first) || !IsOne(last)) return Wrong("a range must be between two characters");
    if (last[0].first < first[0].first) return Wrong("a range ends before it begins");
    ranges->emplace_back(first[0].first, last[0].first);
    return OkStatus();
  }

  static bool IsOne(const Ranges& ranges) {
    return ranges.size() == 1 && ranges[0].first == ranges[0].second;
  }

  StatusOr<Ranges> ClassCharacter() {
    if (AtEnd()) return Wrong("a `]` is missing");
    if (TakeText("\\b")) return Ranges{{'\b', '\b'}};
    if (TakeText("\\-")) return Ranges{{'-', '-'}};
    if (Take('\\')) return Escape();
    if (text_.substr(pos_, 2) == "[:") return Wrong("POSIX classes are not supported");
    const uint32_t c = NextCodePoint(text_, &pos_);
    return Ranges{{c, c}};
  }

  // Behind the `\`.
  StatusOr<Ranges> Escape() {
    if (AtEnd()) return Wrong("a `\\` that escapes nothing");
    const char c = text_[pos_++];
    const auto one = [](uint32_t code_point) { return Ranges{{code_point, code_point}}; };
    switch (c) {
      case 'd':
        return Digits();
      case 'D':
        return Complement(Digits());
      case 'w':
        return WordCharacters();
      case 'W':
        return Complement(WordCharacters());
      case 's':
        return Spaces();
      case 'S':
        return Complement(Spaces());
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        if (!AtEnd() && text_[pos_] >= '0' && text_[pos_] <= '9') break;
        return one(0);
      case 'c':
        if (AtEnd() || !((text_[pos_] | 0x20) >= 'a' && (text_[pos_] | 0x20) <= 'z')) break;
        return one(static_cast<uint32_t>(text_[pos_++]) % 32);
      case 'x':
        return Hex(2);
      case 'u':
        return Take('{') ? BracedHex() : Hex(4);
      default:
        if (IsPunctuation(c)) return one(static_cast<uint32_t>(c));
    }
    --pos_;
    return Wrong("this escape is not supported");
  }

  static bool IsPunctuation(char c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~') || c == ' ';
  }

  StatusOr<Ranges> Hex(int num_digits) {
    uint32_t value = 0;
    for (int i = 0; i < num_digits; ++i, ++pos_) {
      const auto digit = AtEnd() ? std::nullopt : HexDigit(text_[pos_]);
      if (!digit) return Wrong(StrCat(num_digits, " hexadecimal digits are expected"));
      value = value * 16 + *digit;
    }
    return CheckedCodePoint(value);
  }

  StatusOr<Ranges> BracedHex() {
    uint32_t value = 0;
    const size_t begin = pos_;
    while (!AtEnd() && HexDigit(text_[pos_]) && value <= kMaxCodePoint) {
      value = value * 16 + *HexDigit(text_[pos_++]);
    }
    if (pos_ == begin || !Take('}')) return Wrong("\\u{…} wants a hexadecimal number");
    return CheckedCodePoint(value);
  }

  StatusOr<Ranges> CheckedCodePoint(uint32_t value) const {
    const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
    if (value > kMaxCodePoint || is_surrogate) return Wrong("this is no code point of Unicode");
    return Ranges{{value, value}};
  }

  std::string_view text_;
  size_t pos_ = 0;
  ParsedRegex result_;
};

}  // namespace

StatusOr<ParsedRegex> ParseRegex(std::string_view expression) { return Parser(expression).Parse(); }

}  // namespace aril::grammar

#include "tokenizer/regex_syntax.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/strings.h"

namespace aril {
namespace {

// Oniguruma's word characters: its table for Latin-1 has six numbers (²³¹¼½¾) that its rule for the
// other code points has not.
constexpr std::string_view kWordSet =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kHexSet = "0-9A-Fa-f";

// Scripts whose name alone means "script extensions" to PCRE2 and that have some.
constexpr std::array<std::string_view, 24> kScripts = {
    "Arabic",   "Armenian",  "Bengali",   "Bopomofo", "Cyrillic", "Devanagari",
    "Ethiopic", "Georgian",  "Greek",     "Gujarati", "Gurmukhi", "Han",
    "Hangul",   "Hebrew",    "Hiragana",  "Kannada",  "Katakana", "Khmer",
    "Latin",    "Malayalam", "Mongolian", "Tamil",    "Telugu",   "Thai"};

struct PosixClass {
  std::string_view name;
  std::string_view set;
};

constexpr std::array<PosixClass, 9> kPosixClasses = {{
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"digit", R"(\p{Nd})"},
    {"lower", R"(\p{Lowercase})"},
    {"punct", R"(\p{P}\p{S})"},
    {"space", R"(\p{White_Space})"},
    {"upper", R"(\p{Uppercase})"},
    {"word", R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})"},
    {"xdigit", "0-9A-Fa-f"},
}};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  StatusOr<std::string> Run() {
    while (pos_ < in_.size()) RETURN_IF_ERROR(Next());
    return std::move(out_);
  }

 private:
  bool At(std::string_view text) const { return in_.substr(pos_).starts_with(text); }
  Status Refuse(std::string_view what) const {
    return Unimplemented(
        StrCat("the pattern uses ", what, " at byte ", pos_, ", which is not implemented"));
  }

  // Copies `count` input bytes as one atom, i.e. as what a quantifier after it would repeat.
  void CopyAtom(size_t count) { Atom(in_.substr(pos_, count), count); }
  void Atom(std::string_view text, size_t consumed) {
    atom_begin_ = out_.size();
    out_ += text;
    pos_ += consumed;
  }

  Status Next() {
    switch (in_[pos_]) {
      case '\\':
        return Escape();
      case '[':
        atom_begin_ = out_.size();
        return Class();
      case '(':
        return OpenGroup();
      case ')':
        CloseGroup();
        return OkStatus();
      case '{':
        return Interval();
      case '?':
      case '*':
      case '+':
        out_ += in_[pos_++];
        return OkStatus();
      default:
        CopyAtom(CodePointBytes());
        return OkStatus();
    }
  }

  size_t CodePointBytes() const {
    size_t count = 1;
    while (pos_ + count < in_.size() && (in_[pos_ + count] & 0xC0) == 0x80) ++count;
    return count;
  }

  Status OpenGroup() {
    groups_.push_back(out_.size());
    out_ += in_[pos_++];
    if (!At("?")) return OkStatus();
    // (?flags) and (?flags:…); every other group begins with one of : = ! < > # and is the same.
    size_t end = pos_ + 1;
    while (end < in_.size() &&
           (std::isalpha(static_cast<unsigned char>(in_[end])) != 0 || in_[end] == '-')) {
      ++end;
    }
    std::string flags(in_.substr(pos_, end - pos_));
    std::replace(flags.begin(), flags.end(), 'm', 's');
    out_ += flags;
    pos_ = end;
    if (At("~")) return Refuse("an absence operator (?~…)");
    return OkStatus();
  }

  void CloseGroup() {
    if (!groups_.empty()) {
      atom_begin_ = groups_.back();
      groups_.pop_back();
    }
    out_ += in_[pos_++];
  }

  // {n}, {n,}, {n,m}, {,m}; anything else in braces is literal text in both syntaxes.
  Status Interval() {
    size_t end = pos_ + 1;
    size_t digits = 0;
    while (end < in_.size() &&
           (std::isdigit(static_cast<unsigned char>(in_[end])) != 0 || in_[end] == ',')) {
      digits += in_[end] != ',';
      ++end;
    }
    if (end == in_.size() || in_[end] != '}' || digits == 0) {
      Atom("\\{", 1);
      return OkStatus();
    }
    const std::string_view range = in_.substr(pos_ + 1, end - pos_ - 1);
    const bool fixed = range.find(',') == std::string_view::npos;
    out_ += StrCat("{", range.starts_with(",") ? "0" : "", range, "}");
    pos_ = end + 1;
    if (At("+") || (fixed && At("?"))) {  // a quantifier of its own, not a modifier of this one
      out_.insert(atom_begin_, "(?:");
      out_ += ")";
    }
    return OkStatus();
  }

  Status Escape() {
    if (pos_ + 1 == in_.size()) return InvalidArgument("the pattern ends with a lone backslash");
    switch (in_[pos_ + 1]) {
      case 's':
        Atom(R"(\p{White_Space})", 2);
        return OkStatus();
      case 'S':
        Atom(R"(\P{White_Space})", 2);
        return OkStatus();
      case 'w':
        Atom(StrCat("[", kWordSet, "]"), 2);
        return OkStatus();
      case 'W':
        Atom(StrCat("[^", kWordSet, "]"), 2);
        return OkStatus();
      case 'h':
        Atom(StrCat("[", kHexSet, "]"), 2);
        return OkStatus();
      case 'H':
        Atom(StrCat("[^", kHexSet, "]"), 2);
        return OkStatus();
      case 'b':
        Atom(Boundary(), 2);
        return OkStatus();
      case 'B':
        return Refuse("\\B");
      default:
        atom_begin_ = out_.size();
        return SharedEscape();
    }
  }

  static std::string Boundary() {
    return StrCat("(?:(?<=[", kWordSet, "])(?![", kWordSet, "])|(?<![", kWordSet, "])(?=[",
                  kWordSet, "]))");
  }

  // An escape that means the same inside and outside of a class.
  Status SharedEscape() {
    const char kind = in_[pos_ + 1];
    if (kind == 'p' || kind == 'P') return Property();
    if (kind == 'u') {
      const std::string_view digits = in_.substr(pos_ + 2, 4);
      out_ += StrCat("\\x{", digits, "}");
      pos_ += 2 + digits.size();
      return OkStatus();
    }
    out_ += in_[pos_++];
    const size_t count = CodePointBytes();
    out_ += in_.substr(pos_, count);
    pos_ += count;
    return OkStatus();
  }

  Status Property() {
    const size_t end = in_.find('}', pos_);
    if (pos_ + 2 >= in_.size() || in_[pos_ + 2] != '{' || end == std::string_view::npos) {
      return InvalidArgument(StrCat("the pattern has \\p without {name} at byte ", pos_));
    }
    std::string_view name = in_.substr(pos_ + 3, end - pos_ - 3);
    std::string prefix = name.starts_with("^") ? "^" : "";
    name.remove_prefix(prefix.size());
    if (std::find(kScripts.begin(), kScripts.end(), name) != kScripts.end()) prefix += "sc:";
    out_ += StrCat(in_.substr(pos_, 3), prefix, name, "}");
    pos_ = end + 1;
    return OkStatus();
  }

  // A class, with the classes inside of it flattened into their union.
  Status Class() {
    out_ += in_[pos_++];
    if (At("^")) out_ += in_[pos_++];
    if (At("]")) {
      out_ += "\\]";
      ++pos_;
    }
    for (size_t depth = 1; depth > 0;) {
      if (pos_ == in_.size()) return InvalidArgument("the pattern has a class that does not end");
      if (At("&&")) return Refuse("a class intersection (&&)");
      if (At("[^")) return Refuse("a negated class inside of a class");
      if (At("[:")) {
        RETURN_IF_ERROR(PosixSet());
      } else if (At("[")) {
        ++depth;
        ++pos_;
      } else if (At("]")) {
        --depth;
        ++pos_;
      } else {
        RETURN_IF_ERROR(ClassItem());
      }
    }
    out_ += "]";
    return OkStatus();
  }

  Status PosixSet() {
    const size_t end = in_.find(":]", pos_ + 2);
    const std::string_view name =
        in_.substr(pos_ + 2, end == std::string_view::npos ? 0 : end - pos_ - 2);
    for (const PosixClass& known : kPosixClasses) {
      if (known.name != name) continue;
      out_ += known.set;
      pos_ = end + 2;
      return OkStatus();
    }
    return Refuse(StrCat("the class [:", name, ":]"));
  }

  Status ClassItem() {
    if (in_[pos_] != '\\') {
      // Flattening must not turn a literal dash beside a bracket into a range.
      const bool beside_bracket =
          At("-]") || At("-[") || in_[pos_ - 1] == '[' || in_[pos_ - 1] == ']';
      if (in_[pos_] == '-' && beside_bracket) out_ += '\\';
      const size_t count = CodePointBytes();
      out_ += in_.substr(pos_, count);
      pos_ += count;
      return OkStatus();
    }
    if (pos_ + 1 == in_.size()) return InvalidArgument("the pattern ends with a lone backslash");
    switch (in_[pos_ + 1]) {
      case 's':
        out_ += R"(\p{White_Space})";
        break;
      case 'S':
        out_ += R"(\P{White_Space})";
        break;
      case 'w':
        out_ += kWordSet;
        break;
      case 'h':
        out_ += kHexSet;
        break;
      case 'W':
      case 'H':
        return Refuse("\\W or \\H inside of a class");
      default:
        return SharedEscape();
    }
    pos_ += 2;
    return OkStatus();
  }

  const std::string_view in_;
  size_t pos_ = 0;
  std::string out_;
  size_t atom_begin_ = 0;       // in out_: of what the next quantifier repeats
  std::vector<size_t> groups_;  // in out_: the open parentheses
};

}  // namespace

StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace aril

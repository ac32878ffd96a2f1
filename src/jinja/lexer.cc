#include "jinja/lexer.h"

#include <optional>
#include <string>

#include "jinja/tag_lexer.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

using Kind = Token::Kind;

// One kind of newline, and none at the very end.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source), tags_(source) {}

  StatusOr<std::vector<Token>> Run() {
    while (pos_ < source_.size()) {
      const std::optional<size_t> tag = FindTag();
      if (!tag) {
        AddData(source_.substr(pos_));
        break;
      }
      RETURN_IF_ERROR(source_[*tag + 1] == '#' ? LexComment(*tag) : LexTag(*tag));
    }
    tokens_.push_back({.kind = Kind::kEnd, .line = tags_.LineAt(source_.size())});
    return std::move(tokens_);
  }

 private:
  std::optional<size_t> FindTag() const {
    for (size_t i = source_.find('{', pos_); i != std::string_view::npos;
         i = source_.find('{', i + 1)) {
      if (i + 1 == source_.size()) break;
      const char next = source_[i + 1];
      if (next == '{' || next == '%' || next == '#') return i;
    }
    return std::nullopt;
  }

  bool StartsWith(size_t pos, std::string_view text) const {
    return source_.substr(pos, text.size()) == text;
  }

  // The `-` or `+` that a tag begins with, or 0.
  char SignAt(size_t pos) const {
    return pos < source_.size() && (source_[pos] == '-' || source_[pos] == '+') ? source_[pos] : 0;
  }

  void AddData(std::string_view text) {
    if (text.empty()) return;
    tokens_.push_back({.kind = Kind::kData, .line = tags_.LineAt(pos_), .text = std::string(text)});
  }

  // The text from here to a tag. `strips_indent`: the tag is a block or a comment.
  void AddDataBefore(size_t tag, bool strips_indent) {
    std::string_view text = source_.substr(pos_, tag - pos_);
    const char sign = SignAt(tag + 2);
    if (sign == '-') {
      text = StripRight(text);
    } else if (strips_indent && sign != '+') {
      const size_t line_begin = text.rfind('\n') + 1;  // 0 if there is no newline
      const bool begins_line = line_begin > 0 || at_line_start_;
      if (begins_line && StripLeft(text.substr(line_begin)).empty()) {
        text = text.substr(0, line_begin);
      }
    }
    AddData(text);
  }

  // Goes on behind a tag that ended at `end`.
  void Resume(size_t end) {
    pos_ = end;
    at_line_start_ = end > 0 && source_[end - 1] == '\n';
  }

  Status LexComment(size_t tag) {
    AddDataBefore(tag, /*strips_indent=*/true);
    const size_t begin = tag + 2 + (SignAt(tag + 2) != 0 ? 1 : 0);
    const size_t end = source_.find("#}", begin);
    if (end == std::string_view::npos) {
      return EndUnclosed(tag, begin, "Missing end of comment tag");
    }
    const char sign = end > begin ? SignAt(end - 1) : 0;
    Resume(tags_.SkipAfterTag(end + 2, sign, /*trims_newline=*/true));
    return OkStatus();
  }

  Status LexTag(size_t tag) {
    const bool is_block = source_[tag + 1] == '%';
    if (is_block) {
      if (const auto raw = tags_.MatchRawBegin(tag)) return LexRaw(tag, *raw);
    }
    AddDataBefore(tag, /*strips_indent=*/is_block);
    const size_t begin = tag + 2 + (SignAt(tag + 2) != 0 ? 1 : 0);
    tokens_.push_back(
        {.kind = is_block ? Kind::kBlockBegin : Kind::kVariableBegin, .line = tags_.LineAt(tag)});
    ASSIGN_OR_RETURN(const size_t end, tags_.Lex(begin, is_block, &tokens_));
    Resume(end);
    return OkStatus();
  }

  Status LexRaw(size_t tag, size_t begin) {
    AddDataBefore(tag, /*strips_indent=*/true);
    Resume(begin);
    for (size_t end = source_.find("{%", begin); end != std::string_view::npos;
         end = source_.find("{%", end + 2)) {
      const auto after = tags_.MatchRawEnd(end);
      if (!after) continue;
      AddDataBefore(end, /*strips_indent=*/true);
      Resume(*after);
      return OkStatus();
    }
    return EndUnclosed(tag, begin, "Missing end of raw directive");
  }

  // Jinja only complains if something is left to be commented or raw.
  Status EndUnclosed(size_t tag, size_t begin, std::string_view complaint) {
    if (begin < source_.size()) return SyntaxError(tags_.LineAt(tag), complaint);
    Resume(begin);
    return OkStatus();
  }

  const std::string_view source_;
  TagLexer tags_;
  std::vector<Token> tokens_;
  size_t pos_ = 0;
  bool at_line_start_ = true;
};

}  // namespace

StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  const std::string normalized = NormalizeNewlines(source);
  return Lexer(normalized).Run();
}

}  // namespace aril::jinja

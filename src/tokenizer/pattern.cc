#include "tokenizer/pattern.h"

#include "base/utf8.h"
#include "tokenizer/regex_syntax.h"

namespace aril {

StatusOr<Pattern> Pattern::Read(const JsonFields& fields, std::string_view key) {
  ASSIGN_OR_RETURN(const JsonFields pattern, fields.Object(key));
  if (pattern.Has("Regex")) {
    ASSIGN_OR_RETURN(const std::string regex, pattern.String("Regex"));
    auto compiled = Expression(regex);
    if (!compiled.ok()) return Annotate(compiled.status(), pattern.PathOf("Regex"));
    return compiled;
  }
  ASSIGN_OR_RETURN(std::string text, pattern.String("String"));
  return Literal(std::move(text));
}

Pattern Pattern::Literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

StatusOr<Pattern> Pattern::Expression(std::string_view regex) {
  Pattern pattern;
  ASSIGN_OR_RETURN(const std::string translated, OnigurumaToPcre2(regex));
  ASSIGN_OR_RETURN(pattern.regex_, Regex::Compile(translated, {.multiline = true}));
  return pattern;
}

Pattern::Finder::Finder(const Pattern& pattern) : pattern_(pattern) {
  if (pattern.regex_) matcher_.emplace(*pattern.regex_);
}

std::optional<Regex::Range> Pattern::Finder::Next(std::string_view text, size_t from) {
  if (matcher_) return matcher_->Find(text, from);
  if (pattern_.literal_.empty()) return std::nullopt;
  const size_t begin = text.find(pattern_.literal_, from);
  if (begin == std::string_view::npos) return std::nullopt;
  return Regex::Range{begin, begin + pattern_.literal_.size()};
}

std::vector<Stretch> Pattern::Finder::Find(std::string_view text, bool inverted) {
  std::vector<Stretch> stretches;
  size_t done = 0;
  for (size_t from = 0; from <= text.size();) {
    const auto match = Next(text, from);
    if (!match) break;
    if (match->begin > done) stretches.push_back({done, match->begin, inverted});
    stretches.push_back({match->begin, match->end, !inverted});
    done = match->end;
    from = match->end;
    if (match->begin < match->end) continue;
    if (from == text.size()) break;
    NextCodePoint(text, &from);  // an empty match: look further on
  }
  if (done < text.size()) stretches.push_back({done, text.size(), inverted});
  return stretches;
}

}  // namespace aril

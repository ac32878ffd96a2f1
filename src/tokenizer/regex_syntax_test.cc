#include "tokenizer/regex_syntax.h"

#include "base/regex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StatusOr<Regex> Compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, OnigurumaToPcre2(pattern));
  return Regex::Compile(translated, {.multiline = true});
}

std::vector<std::string> FindAll(std::string_view pattern, std::string_view text) {
  const auto regex = Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<std::string> found;
  if (!regex.ok()) return found;
  Regex::Matcher matcher(*regex);
  size_t from = 0;
  for (auto match = matcher.Find(text, from); match && match->end > match->begin;
       match = matcher.Find(text, from)) {
    found.emplace_back(text.substr(match->begin, match->end - match->begin));
    from = match->end;
  }
  return found;
}

std::string ErrorOf(std::string_view pattern) {
  const auto regex = Compile(pattern);
  return regex.ok() ? "" : Message(regex.status());
}

TEST(RegexSyntax, NestedClassesAreUnions) {
  EXPECT_THAT(FindAll(R"([^(\s|[.,!])]+)", "(ab|c.d e"), ElementsAre("ab", "c", "d", "e"));
  EXPECT_THAT(FindAll(R"([a[b-]c]+)", "abc-x"), ElementsAre("abc-"));
  EXPECT_THAT(FindAll(R"([]a]+)", "]a]"), ElementsAre("]a]"));
}

TEST(RegexSyntax, RepeatedIntervalsAreNotPossessive) {
  EXPECT_THAT(FindAll(R"(\d{1,3}+)", "12345"), ElementsAre("12345"));
  EXPECT_THAT(FindAll(R"((?:ab){2}+)", "ababababab"), ElementsAre("abababab"));
  EXPECT_THAT(FindAll(R"(\d{1,3})", "12345"), ElementsAre("123", "45"));
  EXPECT_THAT(FindAll(R"(a{,2})", "aaa"), ElementsAre("aa", "a"));
  EXPECT_THAT(FindAll(R"(a{x})", "a{x}"), ElementsAre("a{x}"));
}

TEST(RegexSyntax, ClassesAreUnicode) {
  EXPECT_THAT(FindAll(R"(\s+)", "a\u00a0\u3000b\u180ec"), ElementsAre("\u00a0\u3000"));
  EXPECT_THAT(FindAll(R"(\w+)", "n\u0303\u00bd\u2463 _x"), ElementsAre("n\u0303\u00bd", "_x"));
  EXPECT_THAT(FindAll(R"(\bx\b)", "xx x-x"), ElementsAre("x", "x"));
  EXPECT_THAT(FindAll(R"(\h+)", "beef stew"), ElementsAre("beef", "e"));
  EXPECT_THAT(FindAll(R"(\p{Han}+)", "\u6f22\u5b57\u3001\u3002"), ElementsAre("\u6f22\u5b57"));
  EXPECT_THAT(FindAll(R"([[:punct:]]+)", "a+-b"), ElementsAre("+-"));
}

TEST(RegexSyntax, LinesAndFlags) {
  EXPECT_THAT(FindAll("^a", "a\nab\n"), ElementsAre("a", "a"));
  EXPECT_THAT(FindAll("(?m:a.b)", "a\nb"), ElementsAre("a\nb"));
  EXPECT_THAT(FindAll("(?i:'LL)", "they'll"), ElementsAre("'ll"));
  EXPECT_THAT(FindAll("(?<=a)b", "ab b"), ElementsAre("b"));
}

TEST(RegexSyntax, RefusesWhatItCannotTranslate) {
  EXPECT_THAT(ErrorOf("[a&&b]"), HasSubstr("a class intersection (&&) at byte 2"));
  EXPECT_THAT(ErrorOf("[a[^b]]"), HasSubstr("a negated class inside of a class"));
  EXPECT_THAT(ErrorOf("[[:graph:]]"), HasSubstr("the class [:graph:]"));
  EXPECT_THAT(ErrorOf("(?~a)"), HasSubstr("absence operator"));
  EXPECT_THAT(ErrorOf("[a"), HasSubstr("a class that does not end"));
  EXPECT_THAT(ErrorOf("a\\"), HasSubstr("lone backslash"));
  EXPECT_THAT(ErrorOf(R"(\pL)"), HasSubstr("without {name}"));
}

}  // namespace
}  // namespace aril

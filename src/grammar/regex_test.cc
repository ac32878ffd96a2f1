#include "grammar/regex.h"

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/regex.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "gmock/gmock.h"
#include "grammar/compile.h"
#include "grammar/test_support.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

using testing::HasSubstr;

StatusOr<Grammar> GrammarOf(const std::string& expression) {
  return Compile({.kind = wire::OutputFormat::Kind::kRegex, .source = expression});
}

Automaton AutomatonOf(const std::string& expression) {
  auto grammar = GrammarOf(expression);
  EXPECT_TRUE(grammar.ok()) << expression << ": " << Message(grammar.status());
  return Automaton(grammar.ok() ? *std::move(grammar) : Grammar{.nodes = {Node{}}});
}

// PCRE2 says the same of texts that the automaton writes, and of texts near them.
class RegexOracle : public testing::TestWithParam<const char*> {};

TEST_P(RegexOracle, AgreesWithPcre) {
  const std::string expression = GetParam();
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(StrCat(expression, ", seed ", seed));
  std::mt19937_64 random(seed);
  Automaton automaton = AutomatonOf(expression);
  const auto regex = Regex::Compile(expression, {.whole_text = true});
  ASSERT_TRUE(regex.ok()) << Message(regex.status());
  Regex::Matcher matcher(*regex);
  int num_written = 0;
  for (int i = 0; i < 60; ++i) {
    auto text = RandomText(automaton, random, 40);
    if (!text) continue;
    ++num_written;
    ASSERT_TRUE(IsValidUtf8(*text)) << *text;
    EXPECT_TRUE(matcher.Find(*text, 0)) << *text;
    // A byte less, more, or another.
    std::string other = *text;
    const size_t at = other.empty() ? 0 : random() % other.size();
    const char byte = "abcxyz0189 .-"[random() % 13];
    switch (random() % 3) {
      case 0:
        other.insert(at, 1, byte);
        break;
      case 1:
        if (!other.empty()) other[at] = byte;
        break;
      default:
        if (!other.empty()) other.erase(at, 1);
    }
    if (!IsValidUtf8(other)) continue;
    EXPECT_EQ(Accepts(automaton, other), matcher.Find(other, 0).has_value()) << other;
  }
  EXPECT_GT(num_written, 0);
}

INSTANTIATE_TEST_SUITE_P(Expressions, RegexOracle,
                         testing::Values("abc", "a|b|cd", "(a|b)*c", "a{3}", "a{2,}", "a{0,3}b?",
                                         "x*?y+?", "[a-c]+[^a-c]", "(?:ab){2,3}",
                                         "(?<year>[0-9]{4})-(?P<month>[0-9]{2})", "[-a]", "[a-]",
                                         "[\\]a]{0}b", "\\.\\*\\[\\]\\{\\}\\\\", "\\x41\\t?",
                                         "a(|b)c", "(a*)*b", "((a|b)?){3}", "[äöü]+",
                                         "[ä-\U0001F600]", "\\d{1,3}(\\.\\d{1,3}){3}",
                                         "[A-Za-z0-9._%+\\-]{1,9}@[a-z]{1,5}\\.[a-z]{2,3}", "^ab?$",
                                         "^a$|^b$", "[\\w.]+", "(yes|no|maybe)", "[^\\n]{0,5}",
                                         "a[\\-\\]]b", "", "(((((((((a)))))))))"),
                         [](const auto& test) { return StrCat("Case", test.index); });

TEST(Regex, WritesCharactersOfAnyLength) {
  Automaton automaton = AutomatonOf("[^a]");
  for (const char* text : {"b", "\x7f", "ä", "€", "\U0001F600", "\n"}) {
    EXPECT_TRUE(Accepts(automaton, text)) << text;
  }
  for (const char* text : {"a", "\x80", "\xC3", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_FALSE(Accepts(automaton, text)) << text;
  }
}

// All code points at the borders of encodings, in every range between two of them.
TEST(Regex, RangesOfCodePointsAreExact) {
  const std::vector<uint32_t> borders = {0,      1,      0x7F,    0x80,    0x7FF,   0x800,
                                         0xFFF,  0x1000, 0xD7FF,  0xE000,  0xFFFF,  0x10000,
                                         0x3FFF, 0x4000, 0x3FFFF, 0x40000, 0x10FFFF};
  for (const uint32_t first : borders) {
    for (const uint32_t last : borders) {
      if (last < first) continue;
      GrammarBuilder builder;
      Automaton automaton(*builder.Build(AddUtf8(builder, {{first, last}}, builder.Return())));
      for (const uint32_t c : borders) {
        std::string text;
        AppendUtf8(c, &text);
        EXPECT_EQ(Accepts(automaton, text), first <= c && c <= last)
            << first << " to " << last << ", " << c;
      }
    }
  }
}

TEST(Regex, EscapesAreThoseOfEcmaScript) {
  Automaton spaces = AutomatonOf("\\s");
  EXPECT_TRUE(Accepts(spaces, " "));
  EXPECT_TRUE(Accepts(spaces, "\u00a0"));
  EXPECT_FALSE(Accepts(spaces, "\u0085"));
  Automaton words = AutomatonOf("\\w");
  EXPECT_FALSE(Accepts(words, "ä"));
  Automaton any = AutomatonOf(".");
  EXPECT_FALSE(Accepts(any, "\r"));
  EXPECT_TRUE(Accepts(any, "ä"));
  Automaton codes = AutomatonOf("\\u00e4\\u{1F600}\\cA\\0");
  EXPECT_TRUE(Accepts(codes, std::string("ä\U0001F600\x01\0", 8)));
}

TEST(Regex, SearchesIfAsked) {
  GrammarBuilder builder;
  const RegexOptions options = {.searches = true,
                                .add_character = [&](const auto& characters, NodeIdx next) {
                                  return AddUtf8(builder, characters, next);
                                }};
  const auto start = AddRegex(builder, "^a|b$|c", options, builder.Return());
  ASSERT_TRUE(start.ok());
  Automaton automaton(*builder.Build(*start));
  for (const char* text : {"a", "axx", "b", "xxb", "xxcxx", "äcä\n"}) {
    EXPECT_TRUE(Accepts(automaton, text)) << text;
  }
  for (const char* text : {"", "xa", "bx", "x"}) EXPECT_FALSE(Accepts(automaton, text)) << text;
}

TEST(Regex, RefusesWhatItCannotKeepTo) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a(?=b)", "at byte 2: look-around"},
      {"(?i)a", "flags"},
      {"(?<!a)b", "look-around"},
      {"(a)\\1", "at byte 4: this escape is not supported"},
      {"\\bword", "this escape"},
      {"\\p{L}", "this escape"},
      {"a++", "possessive"},
      {"a**", "follows a quantifier"},
      {"*a", "follows nothing"},
      {"a|+", "follows nothing"},
      {"(a", "a `)` is missing"},
      {"a)", "a `)` that nothing opens"},
      {"[a", "a `]` is missing"},
      {"[z-a]", "ends before it begins"},
      {"[\\d-a]", "between two characters"},
      {"[]", "matches nothing"},
      {"[^\\s\\S]", "matches nothing"},
      {"[[:alpha:]]", "POSIX"},
      {"a{2,1}", "less than the first"},
      {"a{9999999}", "larger than"},
      {"a{,3}", "a number is missing"},
      {"a{3", "a `}` is missing"},
      {"}", "must be escaped"},
      {"a\\", "escapes nothing"},
      {"\\xg0", "2 hexadecimal digits"},
      {"\\ud800", "no code point"},
      {"\\u{110000}", "no code point"},
      {"a^b", "`^` and `$` are supported only where"},
      {"(^a)", "not supported in groups"},
      {"(?<name", "no `>`"},
      {std::string(200, '(') + std::string(200, ')'), "nested more than"},
      {"\xFF", "UTF-8"},
  };
  for (const auto& [expression, complaint] : cases) {
    const auto grammar = GrammarOf(expression);
    ASSERT_FALSE(grammar.ok()) << expression;
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument) << expression;
    EXPECT_THAT(Message(grammar.status()), HasSubstr(complaint)) << expression;
  }
}

TEST(Regex, RefusesWhatIsTooLarge) {
  for (const char* expression :
       {"(a{1000}){1000}", "((((a{100}){100}){100}){100}){100}", "((|a){1000000}){1000000}"}) {
    EXPECT_EQ(GrammarOf(expression).status().code(), StatusCode::kResourceExhausted) << expression;
  }
  EXPECT_TRUE(GrammarOf("((a{0}){1000000}){1000000}").ok());
  // What adds nothing takes time as well.
  std::string nothing;
  for (int i = 0; i < 8000; ++i) nothing += "()";
  EXPECT_EQ(GrammarOf("(" + nothing + "b){100000}").status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace aril::grammar

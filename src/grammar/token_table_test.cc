#include "grammar/token_table.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "grammar/compile.h"
#include "grammar/test_support.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

using testing::ElementsAre;

Automaton AutomatonOf(const std::string& expression) {
  return Automaton(*Compile({.kind = wire::OutputFormat::Kind::kRegex, .source = expression}));
}

std::vector<int32_t> TokensOf(const TokenSet& set) {
  std::vector<int32_t> tokens;
  for (int32_t t = 0; t < static_cast<int32_t>(set.size() * 64); ++t) {
    if (Contains(set, t)) tokens.push_back(t);
  }
  return tokens;
}

StatusOr<TokenSet> TokensAt(const TokenTable& table, Automaton& automaton, Automaton::State state) {
  int64_t work = 0;
  return table.TokensAt(automaton, state, &work);
}

TEST(TokenTable, FindsTheTokensThatMayFollow) {
  const std::vector<std::string> texts = {"b", "", "ab", "a", "abc", "abd", "ab", "d", "abde"};
  const TokenTable table(texts);
  Automaton automaton = AutomatonOf("a*b?(c|de)?");
  EXPECT_THAT(TokensOf(*TokensAt(table, automaton, automaton.start())),
              ElementsAre(0, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(TokensOf(*TokensAt(table, automaton, Read(automaton, "ab"))), ElementsAre(7));
  EXPECT_THAT(TokensOf(*TokensAt(table, automaton, Read(automaton, "abde"))), ElementsAre());
}

TEST(TokenTable, KnowsTexts) {
  const TokenTable table(std::vector<std::string>{"x", "", "yz"});
  EXPECT_EQ(table.Text(0), "x");
  EXPECT_EQ(table.Text(1), "");
  EXPECT_EQ(table.Text(2), "yz");
  EXPECT_EQ(table.Text(3), "");
  EXPECT_EQ(table.Text(-1), "");
  EXPECT_EQ(table.size(), 3);
}

TEST(TokenTable, LeavesOutWhatIsTooLong) {
  const TokenTable table(std::vector<std::string>{std::string(70'000, 'a'), "a"});
  Automaton automaton = AutomatonOf("a*");
  EXPECT_THAT(TokensOf(*TokensAt(table, automaton, automaton.start())), ElementsAre(1));
}

TEST(TokenTable, ATokenMayEndInsideOfACharacter) {
  const TokenTable table(std::vector<std::string>{"\xC3", "\xA4", "ä", "\xE2\x82"});
  Automaton automaton = AutomatonOf("ä");
  EXPECT_THAT(TokensOf(*TokensAt(table, automaton, automaton.start())), ElementsAre(0, 2));
  EXPECT_THAT(TokensOf(*TokensAt(table, automaton, Read(automaton, "\xC3"))), ElementsAre(1));
}

// What the definition says, of random tokens, expressions and states.
TEST(TokenTable, AgreesWithTheDefinition) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto random_text = [&](size_t max_length) {
    std::string text(random() % (max_length + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) texts.push_back(random_text(6));
  const TokenTable table(texts);
  for (const char* expression : {"(ab|c)*", "a{1,5}[bc]*", "(a|b|c){7}", "abc", "(a(b|c)?)*c"}) {
    Automaton automaton = AutomatonOf(expression);
    for (int i = 0; i < 20; ++i) {
      const std::string begin = random_text(4);
      const Automaton::State state = Read(automaton, begin);
      if (!Automaton::IsState(state)) continue;
      const auto set = TokensAt(table, automaton, state);
      ASSERT_TRUE(set.ok());
      for (int32_t t = 0; t < table.size(); ++t) {
        const std::string& text = texts[static_cast<size_t>(t)];
        EXPECT_EQ(Contains(*set, t),
                  !text.empty() && Automaton::IsState(Read(automaton, begin + text)))
            << expression << " " << begin << " " << text;
      }
    }
  }
}

TEST(TokenTable, GivesUpWhereEveryTokenLeadsElsewhere) {
  std::vector<std::string> texts;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(20, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    texts.push_back(text);
  }
  const TokenTable table(texts);
  // Which of the last 200 letters were an a is part of the state.
  Automaton automaton = AutomatonOf("[ab]*a[ab]{200}");
  EXPECT_EQ(TokensAt(table, automaton, automaton.start()).status().code(),
            StatusCode::kInvalidArgument);
}

// Not many states, but each byte leads past thousands of nodes to one.
TEST(TokenTable, GivesUpWhereEveryBytePassesManyNodes) {
  std::vector<std::string> texts;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(20, 'a');
    for (char& c : text) c = static_cast<char>('!' + random() % 90);
    texts.push_back(text);
  }
  const TokenTable table(texts);
  const std::string many = R"([\x00-\x7f](?:)" + std::string(3'900, '|') + ")";
  Automaton automaton = AutomatonOf("(?:" + many + R"()*[acegikmoqsuwy][\x00-\x7f]{60})");
  int64_t work = 0;
  EXPECT_EQ(table.TokensAt(automaton, automaton.start(), &work).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_GT(work, 100'000);
  EXPECT_LT(work, 5'000'000) << "what a step has to wait for";
}

}  // namespace
}  // namespace aril::grammar

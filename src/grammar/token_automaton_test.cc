#include "grammar/token_automaton.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grammar/compile.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

using testing::HasSubstr;

class TokenMatcherTest : public testing::Test {
 protected:
  static constexpr int32_t kStop = 256;  // beside a token for each byte

  static std::vector<std::string> Bytes() {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    texts.emplace_back();
    return texts;
  }

  std::shared_ptr<TokenAutomaton> Make(const std::string& expression) {
    return std::make_shared<TokenAutomaton>(
        *Compile({.kind = wire::OutputFormat::Kind::kRegex, .source = expression}), table_);
  }

  std::string AllowedBy(TokenMatcher& matcher) {
    const auto set = matcher.Allowed(std::vector<int32_t>{kStop, 1'000'000'000, -1});
    if (!set.ok()) return Message(set.status());
    std::string allowed;
    for (int32_t t = 0; t < 256; ++t) {
      if (Contains(*set, t)) allowed.push_back(static_cast<char>(t));
    }
    return allowed + (Contains(*set, kStop) ? " or stop" : "");
  }

  const TokenTable table_{Bytes()};
};

TEST_F(TokenMatcherTest, FollowsASequence) {
  TokenMatcher matcher(Make("ab?c*"));
  EXPECT_EQ(AllowedBy(matcher), "a");
  ASSERT_TRUE(matcher.Accept('a').ok());
  EXPECT_EQ(AllowedBy(matcher), "bc or stop");
  EXPECT_FALSE(matcher.HasEnded());
  ASSERT_TRUE(matcher.Accept('c').ok());
  EXPECT_EQ(AllowedBy(matcher), "c or stop");
}

TEST_F(TokenMatcherTest, HasEndedWhereNothingCanFollow) {
  TokenMatcher matcher(Make("ab"));
  ASSERT_TRUE(matcher.Accept('a').ok());
  EXPECT_FALSE(matcher.HasEnded());
  ASSERT_TRUE(matcher.Accept('b').ok());
  EXPECT_TRUE(matcher.HasEnded());
  EXPECT_EQ(AllowedBy(matcher), " or stop");
}

TEST_F(TokenMatcherTest, RefusesAnotherToken) {
  TokenMatcher matcher(Make("ab"));
  ASSERT_TRUE(matcher.Accept('a').ok());
  EXPECT_EQ(matcher.Accept('c').code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(AllowedBy(matcher), HasSubstr("token 99 after 1 bytes"));
  EXPECT_FALSE(matcher.HasEnded());
}

TEST_F(TokenMatcherTest, RefusesATokenWithoutText) {
  TokenMatcher matcher(Make("a*"));
  EXPECT_FALSE(matcher.Accept(kStop).ok());
}

TEST_F(TokenMatcherTest, SaysWhatIsWrongWithItsFormat) {
  TokenMatcher matcher(InvalidArgument("no such thing"));
  EXPECT_FALSE(matcher.Accept('a').ok());
  EXPECT_FALSE(matcher.HasEnded());
  EXPECT_EQ(AllowedBy(matcher), "no such thing");
}

TEST_F(TokenMatcherTest, SaysWhenTheVocabularyLacksAllThatMayFollow) {
  const TokenTable table(std::vector<std::string>{"a"});
  TokenMatcher matcher(std::make_shared<TokenAutomaton>(
      *Compile({.kind = wire::OutputFormat::Kind::kRegex, .source = "ab"}), table));
  ASSERT_TRUE(matcher.Accept(0).ok());
  EXPECT_THAT(Message(matcher.Allowed({}).status()),
              HasSubstr("no token can follow after 1 bytes"));
}

// Two sequences in turns, of which every byte leads to a new state: both are found again after what
// the automaton knew has been forgotten.
TEST_F(TokenMatcherTest, IsFoundAgainAfterStatesWereForgotten) {
  const auto automaton = Make("[ab]{0,50000}c");
  TokenMatcher one(automaton);
  TokenMatcher other(automaton);
  for (int i = 0; i < 50'000; ++i) {
    ASSERT_TRUE(one.Accept(i % 2 == 0 ? 'a' : 'b').ok());
    if (i % 1000 != 0) continue;
    ASSERT_EQ(AllowedBy(one), "abc");
    ASSERT_EQ(AllowedBy(other), "abc");
    ASSERT_TRUE(other.Accept('b').ok());
  }
  EXPECT_GT(automaton->epoch(), 0);
  ASSERT_TRUE(one.Accept('c').ok());
  EXPECT_TRUE(one.HasEnded());
  EXPECT_FALSE(other.HasEnded());
}

}  // namespace
}  // namespace aril::grammar

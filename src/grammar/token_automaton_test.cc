#include "grammar/token_automaton.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grammar/compile.h"
#include "grammar/test_support.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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

  static std::string AllowedBy(TokenMatcher& matcher) {
    return TextOf(FindAllowed(matcher, kStop));
  }
  static std::string TextOf(const StatusOr<TokenSet>& set) {
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

// As those of an adapter's own.
TEST_F(TokenMatcherTest, AStopTokenMayLieBehindTheTable) {
  const int32_t stops[] = {static_cast<int32_t>(table_.size()) + 1000, kStop};
  TokenMatcher matcher(Make("a?"));
  int64_t work = 1 << 20;
  matcher.Find(&work);
  const auto allowed = matcher.TakeAllowed(stops);
  ASSERT_TRUE(allowed.ok()) << allowed.status();
  for (const int32_t stop : stops) EXPECT_TRUE(Contains(*allowed, stop));
  EXPECT_TRUE(Contains(*allowed, 'a'));
  EXPECT_FALSE(Contains(*allowed, stops[0] - 1));
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

TEST_F(TokenMatcherTest, SaysWhenTheVocabularyLacksAllThatMayFollow) {
  const TokenTable table(std::vector<std::string>{"a"});
  TokenMatcher matcher(std::make_shared<TokenAutomaton>(
      *Compile({.kind = wire::OutputFormat::Kind::kRegex, .source = "ab"}), table));
  ASSERT_TRUE(matcher.Accept(0).ok());
  EXPECT_THAT(Message(FindAllowed(matcher, 1).status()),
              HasSubstr("no token can follow after 1 bytes"));
}

TEST_F(TokenMatcherTest, LooksAheadAsFarAsOthersHaveBeen) {
  const auto automaton = Make("ab(c|d)*e");
  const std::vector<int32_t> tokens = {'a', 'b', 'c', 'd', 'e'};
  TokenMatcher matcher(automaton);
  const auto ahead = [&](const std::vector<int32_t>& guesses, int64_t work = 1000) {
    int64_t work_of_count = work;
    const auto sets = matcher.LookAhead(guesses, std::vector<int32_t>{kStop}, &work);
    EXPECT_EQ(matcher.CountAhead(guesses, &work_of_count), std::ssize(sets));
    std::vector<std::string> allowed;
    for (const auto& set : sets) allowed.push_back(TextOf(set));
    return allowed;
  };
  EXPECT_THAT(ahead(tokens), IsEmpty()) << "it has not begun";
  AllowedBy(matcher);
  EXPECT_THAT(ahead(tokens), IsEmpty()) << "nobody knows what follows a";

  TokenMatcher other(automaton);
  for (const int32_t token : std::vector<int32_t>{'a', 'b', 'c'}) {
    AllowedBy(other);
    ASSERT_TRUE(other.Accept(token).ok());
  }
  AllowedBy(other);
  EXPECT_THAT(ahead({'a', 'b', 'c', 'd'}), ElementsAre("b", "cde", "cde", "cde"));
  EXPECT_THAT(ahead({'a', 'b', 'd', 'e'}), SizeIs(3)) << "nobody knows what follows e";
  EXPECT_THAT(ahead({'a', 'c'}), SizeIs(1));
  EXPECT_THAT(ahead({'b'}), IsEmpty());
  EXPECT_THAT(ahead({'a', kStop}), SizeIs(1));
  EXPECT_THAT(ahead({'a', 'b', 'd'}, 2), SizeIs(2));
  ASSERT_TRUE(other.Accept('e').ok());
  AllowedBy(other);
  EXPECT_THAT(ahead({'a', 'b', 'e'}), ElementsAre("b", "cde", " or stop"));
  EXPECT_EQ(AllowedBy(matcher), "a") << "it has not moved";
}

TEST_F(TokenMatcherTest, FindsInSeveralGoes) {
  const std::vector<int32_t> text = {'a', 'b', 'c', 'c'};
  const auto automaton = Make("ab?c*");
  TokenMatcher matcher(automaton, text);
  int num_goes = 0;
  for (; !matcher.HasFound(); ++num_goes) {
    EXPECT_FALSE(matcher.FindsAtOnce());
    int64_t work = 1;
    matcher.Find(&work);
    EXPECT_LE(work, 0);
  }
  EXPECT_EQ(num_goes, 5);
  EXPECT_EQ(AllowedBy(matcher), "c or stop");
  TokenMatcher other(automaton, text);
  EXPECT_FALSE(other.FindsAtOnce()) << "it has a text to read";
  int64_t work = 0;
  other.Find(&work);
  EXPECT_FALSE(other.HasFound());
  ASSERT_TRUE(other.Accept('c').ok()) << "behind that text";
  EXPECT_TRUE(other.FindsAtOnce()) << "where the first one has been";
  EXPECT_EQ(AllowedBy(other), "c or stop");
}

TEST_F(TokenMatcherTest, SaysWhatIsWrongWithTheTextThatItIsBehind) {
  const std::vector<int32_t> text = {'a', 'c', 'b'};
  TokenMatcher matcher(Make("ab?c*"), text);
  EXPECT_THAT(AllowedBy(matcher), HasSubstr("token 98 after 2 bytes"));
}

// Two sequences in turns, of which every byte leads to a new state: both stand where they stood
// after what the automaton knew has been forgotten.
TEST_F(TokenMatcherTest, StandsWhereItStoodAfterStatesWereForgotten) {
  const auto automaton = Make("[ab]{0,95000}c");
  TokenMatcher one(automaton);
  TokenMatcher other(automaton);
  size_t most = 0;
  for (int i = 0; i < 90'000; ++i) {
    automaton->Bound();
    ASSERT_TRUE(one.Accept(i % 2 == 0 ? 'a' : 'b').ok());
    most = std::max(most, automaton->automaton().num_states());
    if (i % 1000 != 0) continue;
    ASSERT_EQ(AllowedBy(one), "abc");
    ASSERT_EQ(AllowedBy(other), "abc");
    ASSERT_TRUE(other.Accept('b').ok());
  }
  EXPECT_LT(most, 90'000u);
  EXPECT_LE(automaton->automaton().size_bytes(), TokenAutomaton::kMaxStateBytes + 1000);
  ASSERT_TRUE(one.Accept('c').ok());
  EXPECT_TRUE(one.HasEnded());
  EXPECT_FALSE(other.HasEnded());
}

TEST_F(TokenMatcherTest, OneThatHasGoneIsNotKept) {
  const auto automaton = Make("[ab]{0,95000}c");
  {
    TokenMatcher gone(automaton);
    ASSERT_TRUE(gone.Accept('a').ok());
  }
  TokenMatcher matcher(automaton);
  for (int i = 0; i < 90'000; ++i) {
    automaton->Bound();
    ASSERT_TRUE(matcher.Accept('a').ok());
  }
  EXPECT_EQ(AllowedBy(matcher), "abc");
}

TEST_F(TokenMatcherTest, LeavesNoMoreThanIsKept) {
  const auto automaton = Make("[ab]{0,95000}c");
  {
    TokenMatcher matcher(automaton);
    for (int i = 0; i < 90'000; ++i) ASSERT_TRUE(matcher.Accept('a').ok());
    EXPECT_GT(automaton->automaton().size_bytes(), TokenAutomaton::kMaxStateBytes);
  }
  EXPECT_LE(automaton->automaton().size_bytes(), TokenAutomaton::kMaxStateBytes);
}

TEST_F(TokenMatcherTest, TakesItsPartOfTheMemory) {
  const TokenTable table(Bytes());
  const auto memory = std::make_shared<FormatMemory>();
  const auto make = [&](const std::string& source) {
    return std::make_shared<TokenAutomaton>(
        *Compile({.kind = wire::OutputFormat::Kind::kRegex, .source = source}), table, memory);
  };
  const auto automaton = make("[ab]{0,95000}c");
  std::vector<std::shared_ptr<TokenAutomaton>> others;
  for (int i = 0; i < 1023; ++i) {
    others.push_back(make("a"));
    TokenMatcher(others.back()).Accept('a').IgnoreError();
  }
  const size_t part = FormatMemory::kMaxBytes / 2 / 1024;
  size_t most = 0;
  const auto walk = [&](int num_tokens) {
    TokenMatcher matcher(automaton);
    for (int i = 0; i < num_tokens; ++i) {
      automaton->Bound();
      ASSERT_TRUE(matcher.Accept('a').ok());
      most = std::max(most, automaton->automaton().size_bytes());
    }
    EXPECT_EQ(AllowedBy(matcher), "abc");
  };
  walk(10'000);
  EXPECT_LE(most, part + 1000);
  others.clear();
  walk(10'000);
  EXPECT_GT(most, 2 * part);
}

// Whatever is known already: another sequence may have been there.
TEST_F(TokenMatcherTest, HasTooManyWaysWhereItAlwaysHas) {
  std::vector<std::string> texts = Bytes();
  std::mt19937_64 random(1);
  for (int i = 0; i < 5'000; ++i) {
    std::string text(20, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    texts.push_back(text);
  }
  const TokenTable table(texts);
  const auto automaton = std::make_shared<TokenAutomaton>(
      *Compile({.kind = wire::OutputFormat::Kind::kRegex, .source = "[ab]*a[ab]{200}"}), table);
  const auto tokens_until_refused = [&] {
    TokenMatcher matcher(automaton);
    int count = 0;
    while (count < 50 && FindAllowed(matcher, kStop).ok() && matcher.Accept('a').ok()) ++count;
    return count;
  };
  const int first = tokens_until_refused();
  EXPECT_LT(first, 50);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(tokens_until_refused(), first);
}

}  // namespace
}  // namespace aril::grammar

#include "base/regex.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

Regex Compiled(std::string_view pattern, const Regex::Options& options = {}) {
  auto regex = Regex::Compile(pattern, options);
  EXPECT_TRUE(regex.ok()) << regex.status();
  return *std::move(regex);
}

std::string ErrorOf(std::string_view pattern) {
  return Message(Regex::Compile(pattern, {}).status());
}

TEST(Regex, FindsTheFirstMatchFromAPlace) {
  const Regex regex = Compiled("(?<=a)b+");
  Regex::Matcher matcher(regex);
  const auto match = matcher.Find("b abb ab", 1);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->begin, 3u);
  EXPECT_EQ(match->end, 5u);
  EXPECT_FALSE(matcher.Find("b abb ab", 8).has_value());
}

TEST(Regex, WholeTextBacktracksToTheEnd) {
  const Regex regex = Compiled("a|ab", {.whole_text = true});
  Regex::Matcher matcher(regex);
  EXPECT_TRUE(matcher.Find("a", 0).has_value());
  EXPECT_TRUE(matcher.Find("ab", 0).has_value());
  EXPECT_FALSE(matcher.Find("xab", 0).has_value());
  EXPECT_FALSE(matcher.Find("abx", 0).has_value());
}

TEST(Regex, MultilineIsAnOption) {
  const Regex plain = Compiled("^b");
  const Regex multiline = Compiled("^b", {.multiline = true});
  EXPECT_FALSE(Regex::Matcher(plain).Find("a\nb", 0).has_value());
  EXPECT_TRUE(Regex::Matcher(multiline).Find("a\nb", 0).has_value());
}

TEST(Regex, RefusesWhatDoesNotCompile) {
  EXPECT_THAT(ErrorOf("(a"), HasSubstr("does not compile"));
  EXPECT_THAT(ErrorOf(std::string(200, '(')), HasSubstr("does not compile"));
  EXPECT_THAT(ErrorOf(std::string(100000, 'a')), HasSubstr("more than 65536"));
}

// Backtracks 2^n times; the limit turns it into "no match" long before, and says so.
TEST(Regex, CatastrophicPatternsEnd) {
  const Regex regex = Compiled("(?:a|aa|a)+(?:a|aa|a)+[bc]");
  Regex::Matcher matcher(regex);
  EXPECT_FALSE(matcher.Find(std::string(60, 'a'), 0).has_value());
  EXPECT_TRUE(matcher.exhausted());
  EXPECT_FALSE(matcher.Find("x", 0).has_value());
  EXPECT_FALSE(matcher.exhausted());
}

TEST(Regex, DeepBacktrackingUsesTheHeap) {
  const Regex regex = Compiled("(?:a|b)+");
  const std::string text(200000, 'a');
  const auto match = Regex::Matcher(regex).Find(text, 0);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->end, text.size());
}

}  // namespace
}  // namespace aril

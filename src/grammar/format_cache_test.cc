#include "grammar/format_cache.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

wire::OutputFormat Regex(const std::string& expression) {
  return {.kind = wire::OutputFormat::Kind::kRegex, .source = expression};
}

std::shared_ptr<const TokenTable> Table() {
  return std::make_shared<const TokenTable>(std::vector<std::string>{"a", "b"});
}

TEST(FormatCache, SharesEqualFormats) {
  FormatCache cache(Table());
  const auto one = cache.Get(Regex("a"));
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(*cache.Get(Regex("a")), *one);
  EXPECT_NE(*cache.Get(Regex("b")), *one);
  EXPECT_EQ(*cache.Get(Regex("a")), *one);
}

TEST(FormatCache, DropsThoseUsedLeastRecently) {
  FormatCache cache(Table());
  const std::weak_ptr<TokenAutomaton> first = *cache.Get(Regex("first"));
  const std::weak_ptr<TokenAutomaton> second = *cache.Get(Regex("second"));
  for (size_t i = 2; i < FormatCache::kMaxKept; ++i) EXPECT_TRUE(cache.Get(Regex(StrCat(i))).ok());
  EXPECT_TRUE(cache.Get(Regex("first")).ok());
  EXPECT_TRUE(cache.Get(Regex("another")).ok());
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(second.expired());
}

TEST(FormatCache, KeepsThoseInUse) {
  FormatCache cache(Table());
  const auto used = cache.Get(Regex("used"));
  for (size_t i = 0; i < 2 * FormatCache::kMaxKept; ++i) {
    EXPECT_TRUE(cache.Get(Regex(StrCat(i))).ok());
  }
  EXPECT_EQ(*cache.Get(Regex("used")), *used);
}

TEST(FormatCache, DropsAllThatAreTooManyWhenTheyAreNoLongerUsed) {
  FormatCache cache(Table());
  std::vector<std::shared_ptr<TokenAutomaton>> used;
  std::vector<std::weak_ptr<TokenAutomaton>> all;
  for (size_t i = 0; i < 3 * FormatCache::kMaxKept; ++i) {
    used.push_back(*cache.Get(Regex(StrCat(i))));
    all.emplace_back(used.back());
  }
  used.clear();
  EXPECT_TRUE(cache.Get(Regex("another")).ok());
  EXPECT_EQ(std::ranges::count_if(all, [](const auto& one) { return !one.expired(); }),
            static_cast<int64_t>(FormatCache::kMaxKept) - 1);
}

// What is not used gives way, what is used does not.
TEST(FormatCache, RefusesWhatHasNoRoomBesideThoseInUse) {
  const auto large = [](int number) { return Regex(StrCat("x{0,1000}", number)); };
  const size_t bytes = (*FormatCache(Table()).Get(large(0)))->automaton().grammar().size_bytes();
  FormatCache cache(Table(), std::make_shared<FormatMemory>(10 * bytes + bytes / 2));
  std::vector<std::shared_ptr<TokenAutomaton>> used;
  for (int i = 0; i < 10; ++i) used.push_back(*cache.Get(large(i)));
  EXPECT_EQ(cache.Get(large(10)).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(cache.Get(Regex("small")).ok());
  EXPECT_EQ(*cache.Get(large(3)), used[3]);
  used.pop_back();
  EXPECT_TRUE(cache.Get(large(10)).ok());
}

TEST(FormatCache, RefusesWhatIsNoFormat) {
  FormatCache cache(Table());
  EXPECT_EQ(cache.Get(Regex("(")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FormatCache(nullptr).Get(Regex("a")).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace aril::grammar

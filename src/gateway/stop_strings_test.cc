#include "gateway/stop_strings.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::Contains;

// What the text says before the first stop string; nullopt if there is none. By definition: the
// first end of a match, and the longest that ends there.
std::optional<std::string> NaiveCut(const std::string& text,
                                    const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return std::nullopt;
}

// The longest suffix of `text` that begins a stop string.
size_t NaiveHeldBytes(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t size = text.size(); size > 0; --size) {
    for (const std::string& stop : stops) {
      if (stop.compare(0, size, text, text.size() - size, size) == 0) return size;
    }
  }
  return 0;
}

std::string RandomText(std::mt19937& random, size_t max_bytes) {
  std::string text(std::uniform_int_distribution<size_t>(1, max_bytes)(random), 'a');
  // Two letters, so that stop strings overlap with themselves and each other.
  for (char& c : text) c = static_cast<char>('a' + random() % 2);
  return text;
}

TEST(StopStrings, AgreeWithTheirDefinition) {
  const unsigned seed = 20260101;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = RandomText(random, 6);
    const std::string text = RandomText(random, 24);
    const StopStrings automaton(stops);
    StopMatcher matcher(automaton);
    std::string released;
    std::string seen;
    std::optional<std::string> match;
    while (!match && seen.size() < text.size()) {
      const std::string piece = text.substr(seen.size(), 1 + random() % 5);
      seen += piece;
      const auto result = matcher.Append(piece);
      released += result.released;
      match = result.match;
      if (!match) {
        ASSERT_EQ(released.size(), seen.size() - NaiveHeldBytes(seen, stops));
      }
    }
    const auto expected = NaiveCut(text, stops);
    ASSERT_EQ(match.has_value(), expected.has_value()) << text;
    if (!match) released += matcher.Flush();
    ASSERT_EQ(released, expected.value_or(text));
    if (!match) continue;
    ASSERT_THAT(stops, Contains(*match));
    ASSERT_TRUE(text.substr(released.size()).starts_with(*match)) << text;
  }
}

TEST(StopStrings, ReleaseWholeCodePoints) {
  const StopStrings automaton({"é€"});
  StopMatcher matcher(automaton);
  EXPECT_EQ(matcher.Append("x").released, "x");
  EXPECT_EQ(matcher.Append("é").released, "");
  EXPECT_EQ(matcher.Append("é").released, "é");
  const auto end = matcher.Append("€ and more");
  EXPECT_EQ(end.match, "é€");
  EXPECT_EQ(end.released, "");
}

TEST(StopStrings, NoneLetsEverythingThrough) {
  const StopStrings automaton({});
  StopMatcher matcher(automaton);
  EXPECT_EQ(matcher.Append("anything").released, "anything");
  EXPECT_EQ(matcher.Flush(), "");
}

}  // namespace
}  // namespace aril::gateway

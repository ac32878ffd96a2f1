#include "apps/metrics_text.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(MetricsText, ReadsNamesLabelsAndValues) {
  const auto samples = ParseMetrics(
      "# HELP a Something\na 1.5 1700000000\nb{x=\"1\",y=\"a \\\"q\\\" \\\\ \\n}\"} +Inf\nc{} "
      "2e3\n");
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].name, "a");
  EXPECT_EQ(samples[0].value, 1.5);
  EXPECT_THAT(samples[0].labels, IsEmpty());
  EXPECT_THAT(samples[1].labels, ElementsAre(Pair("x", "1"), Pair("y", "a \"q\" \\ \n}")));
  EXPECT_TRUE(std::isinf(samples[1].value));
  EXPECT_EQ(FindValue(samples, "c"), 2000);
  EXPECT_TRUE(FindValue(samples, "b", {{"x", "1"}}).has_value());
  EXPECT_FALSE(FindValue(samples, "b", {{"x", "2"}}).has_value());
}

TEST(MetricsText, PassesOverWhatIsNoSample) {
  EXPECT_THAT(ParseMetrics("\n\n# x\nword\n{a=\"b\"} 1\na{b=\"c 1\na{b} 1\na{b=\"c\"\n"),
              IsEmpty());
}

TEST(MetricsText, SeesWhatHappenedBetweenTwoScrapes) {
  const auto histogram = [](int at_1, int at_2, int at_4, double sum) {
    return "other_bucket{le=\"1\"} 9\n# TYPE x histogram\nx_bucket{le=\"1\"} " +
           std::to_string(at_1) + "\nx_bucket{le=\"2\"} " + std::to_string(at_2) +
           "\nx_bucket{le=\"4\"} " + std::to_string(at_4) + "\nx_bucket{le=\"+Inf\"} " +
           std::to_string(at_4) + "\nx_sum " + std::to_string(sum) + "\nx_count " +
           std::to_string(at_4) + "\n";
  };
  const auto before = FindHistogram(ParseMetrics(histogram(0, 0, 5, 20)), "x");
  const auto after = FindHistogram(ParseMetrics(histogram(2, 4, 9, 26)), "x");
  ASSERT_TRUE(before && after);
  const HistogramChange change = Difference(*before, *after);
  EXPECT_EQ(change.count, 4);
  EXPECT_EQ(change.mean, 1.5);
  EXPECT_EQ(change.max, 2);
  EXPECT_EQ(Difference(*before, *before).max, 0);
  EXPECT_FALSE(FindHistogram(ParseMetrics("y 1\n"), "x"));
}

}  // namespace
}  // namespace aril

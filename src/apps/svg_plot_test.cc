#include "apps/svg_plot.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(AxisTicks, AreRoundAndReachTheLargest) {
  EXPECT_THAT(AxisTicks(10), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(AxisTicks(11), ElementsAre(0, 5, 10, 15));
  EXPECT_THAT(AxisTicks(300), ElementsAre(0, 100, 200, 300));
  EXPECT_THAT(AxisTicks(1), ElementsAre(0, ::testing::DoubleEq(0.2), ::testing::DoubleEq(0.4),
                                        ::testing::DoubleEq(0.6), ::testing::DoubleEq(0.8),
                                        ::testing::DoubleEq(1)));
  EXPECT_THAT(AxisTicks(0), ElementsAre(0, 1));
  for (double max = 1e-9; max < 1e12; max *= 1.7) {
    const std::vector<double> ticks = AxisTicks(max);
    EXPECT_GE(ticks.back(), max);
    EXPECT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.size(), 8u) << max;
  }
}

TEST(RenderSvg, DrawsEveryLineOfEveryPlot) {
  const std::vector<PlotLine> lines = {{"a", {{0, 0}, {10, 5}}}, {"b < c & d", {{0, 5}}}};
  const std::string svg = RenderSvg({{"first", "x", "y", lines}, {"second", "x", "y", lines}});
  EXPECT_EQ(Count(svg, "<polyline"), 4u);
  EXPECT_EQ(Count(svg, "b &lt; c &amp; d"), 1u) << "one legend for both";
  EXPECT_THAT(svg, HasSubstr(">first</text>"));
  EXPECT_THAT(svg, HasSubstr(">second</text>"));
  // (0, 0) is the corner of the axes, (10, 5) the opposite one: both are ticks.
  EXPECT_THAT(svg, HasSubstr("points=\"76.0,280.0 796.0,40.0 \""));
}

TEST(RenderSvg, PlotsShareTheirXAxis) {
  const std::string svg =
      RenderSvg({{"long", "x", "y", {{"a", {{10, 0}}}}}, {"short", "x", "y", {{"a", {{5, 0}}}}}});
  EXPECT_THAT(svg, HasSubstr("points=\"796.0,280.0 796.0,280.0 \"")) << "a dot";
  EXPECT_THAT(svg, HasSubstr("points=\"436.0,612.0 436.0,612.0 \""));
}

TEST(RenderSvg, NothingToDrawIsStillAPicture) {
  EXPECT_THAT(RenderSvg({}), HasSubstr("</svg>"));
  EXPECT_THAT(RenderSvg({{"empty", "x", "y", {{"a", {}}}}}), HasSubstr("points=\"\""));
}

}  // namespace
}  // namespace aril

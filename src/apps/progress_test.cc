#include "apps/progress.h"

#include <algorithm>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Duration kSecond = std::chrono::seconds(1);

TEST(FormatBytes, PicksAUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1500), "1.5 kB");
  EXPECT_EQ(FormatBytes(123'456'789), "123 MB");
  EXPECT_EQ(FormatBytes(999'900), "1.0 MB");
  EXPECT_EQ(FormatBytes(2'200'000'000), "2.2 GB");
  EXPECT_EQ(FormatBytes(5'000'000'000'000'000), "5000 TB");
}

TEST(Progress, PrintsALinePerTenthInAPipe) {
  std::ostringstream out;
  ManualClock clock;
  Progress progress({.label = "work", .total = 1000}, out, clock);
  for (int i = 0; i < 1000; ++i) {
    clock.Advance(kSecond / 100);
    progress.Add(1);
  }
  progress.Finish();
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_THAT(text, HasSubstr("work: 20%, 200 B of 1.0 kB, 100 B/s, 8.0 s left\n"));
  EXPECT_THAT(text, EndsWith("work: 1.0 kB in 10.0 s (100 B/s)\n"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(Progress, SaysInAPipeOnlyThatQuickWorkIsDone) {
  std::ostringstream out;
  ManualClock clock;
  Progress progress({.label = "work", .total = 1000}, out, clock);
  for (int i = 0; i < 1000; ++i) progress.Add(1);
  progress.Finish();
  EXPECT_EQ(out.str(), "work: 1.0 kB in 0.0 s\n");
}

TEST(Progress, RedrawsABarOnATerminal) {
  std::ostringstream out;
  ManualClock clock;
  Progress progress({.label = "work", .total = 100, .is_terminal = true}, out, clock);
  progress.Add(1);  // too early to draw
  EXPECT_EQ(out.str(), "");
  clock.Advance(10 * kSecond);
  progress.Add(49);
  EXPECT_THAT(out.str(), HasSubstr("\rwork [###############...............] 50%, 50 B of 100 B, "
                                   "5 B/s, 10.0 s left"));
  clock.Advance(kSecond / 1000);
  const size_t before = out.str().size();
  progress.Add(1);
  EXPECT_EQ(out.str().size(), before) << "at most ten times a second";
  clock.Advance(600 * kSecond);
  progress.Add(49);
  progress.Finish();
  EXPECT_THAT(out.str(), EndsWith("work: 100 B in 10 min 10 s (0 B/s)\n"));
}

TEST(Progress, CountsOtherThingsThanBytes) {
  std::ostringstream out;
  ManualClock clock;
  Progress progress({.label = "run", .total = 1200, .unit = "requests", .is_terminal = true}, out,
                    clock);
  clock.Advance(10 * kSecond);
  progress.Add(300);
  EXPECT_THAT(out.str(), HasSubstr("] 25%, 300 of 1200 requests, 30.0/s, 30.0 s left"));
  clock.Advance(30 * kSecond);
  progress.Add(900);
  progress.Finish();
  EXPECT_THAT(out.str(), EndsWith("run: 1200 requests in 40.0 s (30.0/s)\n"));
}

TEST(Progress, NothingToDoIsNoDivisionByZero) {
  std::ostringstream out;
  ManualClock clock;
  Progress progress({.label = "work"}, out, clock);
  progress.Add(0);
  progress.Finish();
  EXPECT_EQ(out.str(), "work: 0 B in 0.0 s\n");
}

}  // namespace
}  // namespace aril

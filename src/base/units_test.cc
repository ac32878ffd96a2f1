#include "base/units.h"

#include "gtest/gtest.h"

namespace aril {
namespace {

TEST(Units, ReadsSizes) {
  const auto bytes = [](const std::string& text) { return ParseSizeBytes(text).value_or(-1); };
  EXPECT_EQ(bytes("0"), 0);
  EXPECT_EQ(bytes("4096"), 4096);
  EXPECT_EQ(bytes("10B"), 10);
  EXPECT_EQ(bytes("512MiB"), 512LL << 20);
  EXPECT_EQ(bytes("512 mib"), 512LL << 20);
  EXPECT_EQ(bytes("1.5GiB"), 3LL << 29);
  EXPECT_EQ(bytes("2KB"), 2000);
  EXPECT_EQ(bytes("3TB"), 3000000000000);
  for (const char* bad : {"", "GiB", "-1", "1 GiB x", "1e3", "nan", "inf", "1GiBs", "0x10", "1,5GB",
                          "9223372036854775808", "8388608TiB", " 1"}) {
    EXPECT_FALSE(ParseSizeBytes(bad).ok()) << bad;
  }
}

TEST(Units, ReadsDurations) {
  const auto ms = [](const std::string& text) {
    const auto duration = ParseDuration(text);
    return duration.ok() ? duration->count() / 1'000'000 : -1;
  };
  EXPECT_EQ(ms("0"), 0);
  EXPECT_EQ(ms("500ms"), 500);
  EXPECT_EQ(ms("30s"), 30000);
  EXPECT_EQ(ms("1.5 min"), 90000);
  EXPECT_EQ(ms("2H"), 7200000);
  for (const char* bad : {"", "30", "s", "-1s", "1d", "1s1"}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace aril

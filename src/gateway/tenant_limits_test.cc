#include "gateway/tenant_limits.h"

#include <optional>
#include <string>

#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TenantLimitsFileTest : public ::testing::Test {
 protected:
  StatusOr<TenantLimitTable> Read(const std::string& content) const {
    return ReadTenantLimitsFile(dir_.Write("limits", content));
  }
  std::string ErrorOf(const std::string& content) const { return Message(Read(content).status()); }

  const TestDir dir_;
};

TEST_F(TenantLimitsFileTest, EachLineIsATenantAndItsLimits) {
  const auto limits = Read(
      "# ours\n\nacme requests-per-minute=60 tokens-per-minute=10000\r\n"
      "  org/team\tconcurrent-requests=4  \n");
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(limits->Of("acme"),
            (TenantLimits{.requests_per_minute = 60, .tokens_per_minute = 10000}));
  EXPECT_EQ(limits->Of("org/team"), TenantLimits{.concurrent_requests = 4});
  EXPECT_EQ(limits->Of("somebody"), TenantLimits());
}

TEST_F(TenantLimitsFileTest, WhatALineLeavesOutIsAsForAllOthers) {
  const auto limits = Read(
      "acme tokens-per-minute=500 concurrent-requests=unlimited\n"
      "* requests-per-minute=10 concurrent-requests=2\n"
      "plain\n");
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(limits->Of("acme"),
            (TenantLimits{.requests_per_minute = 10, .tokens_per_minute = 500}));
  const TenantLimits others = {.requests_per_minute = 10, .concurrent_requests = 2};
  EXPECT_EQ(limits->Of("plain"), others);
  EXPECT_EQ(limits->Of("somebody"), others);
}

TEST_F(TenantLimitsFileTest, AnEmptyFileLimitsNobody) {
  const auto limits = Read("# nothing yet\n");
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(limits->of_others, TenantLimits());
  EXPECT_THAT(limits->of_tenant, IsEmpty());
}

TEST_F(TenantLimitsFileTest, ErrorsNameTheLineAndSayWhatIsExpected) {
  EXPECT_THAT(ErrorOf("\na,b requests-per-minute=1"),
              HasSubstr("limits:2: expected a tenant's name, or * for all others"));
  EXPECT_THAT(ErrorOf("acme\nzeta\nacme"), EndsWith(":3: acme has a line already"));
  EXPECT_THAT(ErrorOf("*\n*"), EndsWith(":2: * has a line already"));
  EXPECT_THAT(ErrorOf("acme rpm=3"),
              AllOf(HasSubstr("\"rpm\" is no limit"), HasSubstr("requests-per-minute")));
  EXPECT_THAT(ErrorOf("acme tokens-per-minute=1 tokens-per-minute=2"),
              EndsWith("tokens-per-minute was already given"));
  for (const char* value : {"", "=", "=0", "=-1", "=1.5", "=1k", "=1000000001", "= 5", "=no",
                            "=99999999999999999999"}) {
    EXPECT_THAT(
        ErrorOf(std::string("acme requests-per-minute") + value),
        HasSubstr("requests-per-minute must be a number from 1 to 1000000000, or unlimited"))
        << value;
  }
  EXPECT_THAT(Message(ReadTenantLimitsFile(dir_ / "absent").status()), HasSubstr("absent"));
}

}  // namespace
}  // namespace aril::gateway

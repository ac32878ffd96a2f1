#include "apps/fd_limit.h"

#include <sys/resource.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

TEST(FdLimit, RisesToTheHardLimitOrSaysWhatIsMissing) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max / 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(RaiseFdLimit(1).ok());
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);

  const Status status = RaiseFdLimit(limit.rlim_max);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("--max-connections"));
  EXPECT_THAT(Message(status), HasSubstr("LimitNOFILE"));
}

}  // namespace
}  // namespace aril

#include "base/termination_signals.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::UnorderedElementsAre;

TEST(TerminationSignals, LeaveSighupIgnoredUnderNohup) {
  EXPECT_THAT(TerminationSignals(), UnorderedElementsAre(SIGTERM, SIGINT, SIGHUP));
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_THAT(TerminationSignals(), UnorderedElementsAre(SIGTERM, SIGINT));
  std::signal(SIGHUP, SIG_DFL);
}

TEST(TerminationSignals, EndAtOnceWhenSomebodyAsksTwice) {
  EXPECT_TRUE(EndsAtOnce(SIGTERM));
  EXPECT_TRUE(EndsAtOnce(SIGINT));
  EXPECT_FALSE(EndsAtOnce(SIGHUP)) << "a closing terminal sends it twice";
}

}  // namespace
}  // namespace aril

#include "apps/settings_reloader.h"

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// What was reported, for a test that waits for it.
class Reports {
 public:
  SettingsReloader::Report Adder() {
    return [this](const std::string& flag, const Status& outcome) {
      const std::lock_guard lock(mutex_);
      reports_.emplace_back(flag, Message(outcome));
      added_.notify_all();
    };
  }
  std::vector<std::pair<std::string, std::string>> Wait(size_t count) {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] { return reports_.size() >= count; });
    return reports_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::pair<std::string, std::string>> reports_;
};

// At once: nobody sees a part of it.
void Replace(const TestDir& dir, const std::string& name, const std::string& content) {
  std::filesystem::rename(dir.Write("next", content), dir / name);
}

constexpr Duration kSoon = std::chrono::milliseconds(1);

TEST(SettingsReloader, ReadsWhatHasChangedAndSaysWhatCameOfIt) {
  const TestDir dir;
  Reports reports;
  const std::string a = dir.Write("a", "x");
  const SettingsReloader reloader(
      {{.flag = "--a",
        .files = FileWatch({a}),
        .reload = [a]() -> Status {
          ASSIGN_OR_RETURN(const std::string content, ReadFile(a, 100));
          return content == "bad" ? InvalidArgument("line 3") : OkStatus();
        }},
       {.flag = "--b",
        .files = FileWatch({dir.Write("b", "x")}),
        .reload = []() -> Status { throw std::runtime_error("no memory"); }}},
      kSoon, reports.Adder());
  Replace(dir, "a", "changed");
  EXPECT_THAT(reports.Wait(1), ElementsAre(Pair("--a", "")));
  Replace(dir, "b", "changed");
  EXPECT_THAT(reports.Wait(2), ElementsAre(Pair("--a", ""), Pair("--b", "no memory")));
  Replace(dir, "a", "bad");
  EXPECT_THAT(reports.Wait(3),
              ElementsAre(Pair("--a", ""), Pair("--b", "no memory"), Pair("--a", "line 3")));
}

// Whatever the interval: who ends a server does not wait for it.
TEST(SettingsReloader, EndsAtOnce) {
  const TestDir dir;
  const SettingsReloader reloader(
      {{.flag = "--a", .files = FileWatch({dir / "a"}), .reload = [] { return OkStatus(); }}},
      std::chrono::hours(1000), [](const std::string&, const Status&) {});
}

}  // namespace
}  // namespace aril

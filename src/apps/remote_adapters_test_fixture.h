// A model, a store, and sources that are fetched through a transport that fails as it is told to.

#ifndef ARIL_APPS_REMOTE_ADAPTERS_TEST_FIXTURE_H_
#define ARIL_APPS_REMOTE_ADAPTERS_TEST_FIXTURE_H_

#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/local_adapters.h"
#include "apps/remote_adapters.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sources/test_support.h"

namespace aril {

inline const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");
inline const std::string kAdapter = kModel + "/adapters/all-r4";
inline constexpr char kSource[] = "https://a.example/good";

class RemoteAdaptersTest : public ::testing::Test {
 protected:
  // `host_bytes`: of adapters whose files are open.
  explicit RemoteAdaptersTest(std::optional<int64_t> host_bytes = std::nullopt)
      : store_(*GenerationStore::Open(dir_ / "store")) {
    auto runner = LocalRunner::Create(
        {.model_dir = kModel, .threads = 1, .adapter_host_cache_bytes = host_bytes}, RealClock());
    EXPECT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    local_ = std::make_unique<LocalAdapters>(
        *runner_,
        LocalAdapters::Options{.roots = AdapterRoots({kModel + "/adapters"}), .store = &store_});
    SourcePolicy policy;
    policy.https_origins = {*ParseOrigin("https://a.example", false)};
    remote_ = std::make_unique<RemoteAdapters>(
        AdapterFetcher(policy, clock_,
                       [this](const SourcePolicy&) {
                         return std::make_unique<FakeTransport>(
                             [this](const HttpGet& get) { return Answer(get); }, &asked_);
                       }),
        *local_, store_);
    for (const std::string& name : AdapterFileNames()) {
      if (const auto file = ReadFile(kAdapter + "/" + name, 1 << 20); file.ok()) {
        served_[StrCat(kSource, "/", name)] = *file;
      }
    }
  }

  FakeReply Answer(const HttpGet& get) const {
    if (slow_.valid()) slow_.wait();
    const auto found = served_.find(get.url);
    if (found == served_.end()) return {.head = {.status = 404}};
    return {.head = {.status = 200, .content_length = static_cast<int64_t>(found->second.size())},
            .body = found->second};
  }
  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source = kSource) {
    RETURN_IF_ERROR(remote_->Check(source));
    ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, remote_->Fetch(source, monitor_));
    ASSIGN_OR_RETURN(auto generation, remote_->Open(incoming, source));
    RETURN_IF_ERROR(remote_->Keep(std::move(incoming), *generation));
    return generation;
  }
  std::string& Served(const std::string& name) { return served_[StrCat(kSource, "/", name)]; }
  // Nothing stays of what failed.
  void ExpectFailure(StatusCode code, const std::string& message) {
    const Status status = Load().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(Message(status), ::testing::HasSubstr(message));
    EXPECT_THAT(Message(status), ::testing::Not(::testing::HasSubstr(dir_.path())))
        << "our paths are no business of clients";
    EXPECT_TRUE(std::filesystem::is_empty(dir_ / "store"));
  }

  TestDir dir_;
  const GenerationStore store_;
  ManualClock clock_;
  FakeMonitor monitor_{&clock_};
  std::map<std::string, std::string> served_;
  std::vector<HttpGet> asked_;
  std::shared_future<void> slow_;  // if valid, nothing is answered before
  std::unique_ptr<LocalRunner> runner_;
  std::unique_ptr<LocalAdapters> local_;
  std::unique_ptr<RemoteAdapters> remote_;
};

}  // namespace aril

#endif  // ARIL_APPS_REMOTE_ADAPTERS_TEST_FIXTURE_H_

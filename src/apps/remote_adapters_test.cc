// Sources that are fetched into a store, through a transport that fails as it is told to.

#include "apps/remote_adapters.h"

#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/hostile_inputs.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sources/test_support.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kModel = ARIL_SOURCE_DIR "/tests/goldens/llama-f32-sharded";
const std::string kAdapter = kModel + "/adapters/all-r4";
constexpr char kSource[] = "https://a.example/good";

class RemoteAdaptersTest : public ::testing::Test {
 protected:
  RemoteAdaptersTest() : store_(*GenerationStore::Open(dir_ / "store")) {
    auto runner = LocalRunner::Create({.model_dir = kModel, .threads = 1}, RealClock());
    EXPECT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    local_ = std::make_unique<LocalAdapters>(
        *runner_,
        LocalAdapters::Options{.special_tokens = {},
                               .templates = std::make_shared<gateway::AdapterChatTemplates>(),
                               .store = &store_});
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
    EXPECT_THAT(Message(status), HasSubstr(message));
    EXPECT_THAT(Message(status), Not(HasSubstr(dir_.path())))
        << "our paths are no business of clients";
    EXPECT_TRUE(fs::is_empty(dir_ / "store"));
  }

  TestDir dir_;
  const GenerationStore store_;
  ManualClock clock_;
  FakeMonitor monitor_{&clock_};
  std::map<std::string, std::string> served_;
  std::vector<HttpGet> asked_;
  std::unique_ptr<LocalRunner> runner_;
  std::unique_ptr<LocalAdapters> local_;
  std::unique_ptr<RemoteAdapters> remote_;
};

TEST_F(RemoteAdaptersTest, WhatIsFetchedIsTheSameGenerationAsAFolder) {
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((**loaded)->digest, *DigestOfAdapter(kAdapter));
  EXPECT_EQ((**loaded)->rank, 4);
  EXPECT_TRUE(store_.Has((**loaded)->digest));
  const auto again = Load();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *loaded);
  EXPECT_EQ(store_.List()->size(), 1u);
}

TEST_F(RemoteAdaptersTest, WhatIsNoAdapterIsRefused) {
  const std::string config = Served("adapter_config.json");
  Served("adapter_config.json") = "{}";
  ExpectFailure(StatusCode::kInvalidArgument, "peft_type");
  Served("adapter_config.json") = "<html>not found</html>";
  ExpectFailure(StatusCode::kInvalidArgument, kSource);
  Served("adapter_config.json") = config;
  std::string& weights = Served("adapter_model.safetensors");
  weights.resize(weights.size() / 2);
  ExpectFailure(StatusCode::kInvalidArgument, "adapter_model.safetensors");
  weights = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  ExpectFailure(StatusCode::kInvalidArgument, "adapter_model.safetensors");
  weights.clear();
  ExpectFailure(StatusCode::kInvalidArgument, "adapter_model.safetensors");
  served_.erase(StrCat(kSource, "/adapter_model.safetensors"));
  ExpectFailure(StatusCode::kNotFound, "has no adapter_model.safetensors");
}

TEST_F(RemoteAdaptersTest, WhatIsTooLargeIsRefused) {
  Served("adapter_config.json") = std::string((size_t{4} << 20) + 1, ' ');
  ExpectFailure(StatusCode::kInvalidArgument, "larger than");
}

TEST_F(RemoteAdaptersTest, ACancelledLoadLeavesNothing) {
  monitor_.cancel_after_bytes = 100;
  ExpectFailure(StatusCode::kCancelled, "cancelled");
}

TEST_F(RemoteAdaptersTest, HostileSourcesAreRefusedAndNobodyIsAsked) {
  size_t num_tried = 0;
  for (const auto& inputs :
       {HostileTraversals(2, "outside/canary"), HostileUrls(), HostileStrings()}) {
    for (const std::string& source : inputs) {
      if (!remote_->IsRemote(source)) continue;
      EXPECT_FALSE(Load(source).ok()) << source;
      ++num_tried;
    }
  }
  EXPECT_GE(num_tried, 200u);
  EXPECT_TRUE(asked_.empty());
  EXPECT_TRUE(fs::is_empty(dir_ / "store"));
}

}  // namespace
}  // namespace aril

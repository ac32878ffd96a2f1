#include "apps/runner_shared_adapters.h"

#include <future>
#include <optional>

#include "apps/remote_adapters_test_fixture.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of a loop that nothing comes to.
class IdleNode final : public cluster::Node {
 public:
  void OnAccepted(cluster::LinkId, TimePoint) override {}
  void OnFrame(cluster::LinkId, cluster::Frame, TimePoint) override {}
  void OnBroken(cluster::LinkId, const Status&, TimePoint) override {}
  void OnTick(TimePoint) override {}
};

class RunnerSharedAdaptersTest : public RemoteAdaptersTest {
 protected:
  using Ready = cluster::SharedAdapterLoader::Ready;

  explicit RunnerSharedAdaptersTest(std::optional<int64_t> host_bytes = std::nullopt)
      : RemoteAdaptersTest(host_bytes) {
    loop_.Start(node_);
  }
  void TearDown() override {
    loop_.Stop();
    shared_.reset();
  }
  void Make(size_t max_kept = 10, bool fetches = true) {
    shared_.emplace(RunnerSharedAdapters::Options{.max_kept = max_kept}, loop_, *runner_, *local_,
                    fetches ? remote_.get() : nullptr);
  }
  static delivery::SharedAdapter Shared(const std::string& folder, const std::string& source) {
    return {delivery::kFirstSharedAdapter, *DigestOfAdapter(kModel + "/adapters/" + folder),
            source};
  }
  StatusOr<Ready> LoadShared(const delivery::SharedAdapter& what) {
    std::promise<StatusOr<Ready>> promise;
    shared_->Load(what, [&](const StatusOr<Ready>& ready, TimePoint) { promise.set_value(ready); });
    return promise.get_future().get();
  }

  RealClock real_;
  IdleNode node_;
  cluster::NodeLoop loop_{real_};
  std::optional<RunnerSharedAdapters> shared_;
};

TEST_F(RunnerSharedAdaptersTest, FetchesWhatItLacksOnce) {
  Make();
  const delivery::SharedAdapter what = Shared("all-r4", kSource);
  EXPECT_FALSE(shared_->Find(what.digest));
  const auto ready = LoadShared(what);
  ASSERT_TRUE(ready.ok()) << ready.status();
  EXPECT_GT(ready->pages, 0);
  const size_t num_asked = asked_.size();
  EXPECT_EQ(shared_->Find(what.digest)->adapter, ready->adapter);
  EXPECT_EQ(LoadShared(what)->adapter, ready->adapter);
  EXPECT_EQ(asked_.size(), num_asked);
}

TEST_F(RunnerSharedAdaptersTest, OtherFilesThanWereRegisteredAreRefused) {
  Make();
  const auto fetched = LoadShared(Shared("down-r1", kSource));
  EXPECT_EQ(fetched.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(fetched.status()), HasSubstr("load the adapter again"));
  const auto in_a_folder = LoadShared(Shared("down-r1", "qv-r64-bf16"));
  EXPECT_EQ(in_a_folder.status().code(), StatusCode::kFailedPrecondition);
  for (const char* folder : {"all-r4", "qv-r64-bf16"}) {
    EXPECT_FALSE(store_.Has(Shared(folder, "").digest)) << folder << " is left in the store";
  }
  EXPECT_TRUE(LoadShared(Shared("qv-r64-bf16", "qv-r64-bf16")).ok());
}

TEST_F(RunnerSharedAdaptersTest, WhatIsNotThereYetMayComeLater) {
  Make();
  const auto served = std::exchange(served_, {});
  EXPECT_EQ(LoadShared(Shared("all-r4", kSource)).status().code(), StatusCode::kNotFound);
  served_ = served;
  EXPECT_TRUE(LoadShared(Shared("all-r4", kSource)).ok());
  EXPECT_EQ(LoadShared(Shared("all-r4", "https://b.example/x")).status().code(), StatusCode::kOk)
      << "the same bytes are there";
  EXPECT_EQ(LoadShared(Shared("down-r1", "https://b.example/x")).status().code(),
            StatusCode::kInvalidArgument)
      << "not an origin that the operator allows";
}

TEST_F(RunnerSharedAdaptersTest, TheLeastRecentlyUsedMakeRoom) {
  Make(2);
  ASSERT_TRUE(LoadShared(Shared("all-r4", "all-r4")).ok());
  const auto held = LoadShared(Shared("down-r1", "down-r1"));
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(shared_->Find(Shared("all-r4", "").digest));
  ASSERT_TRUE(LoadShared(Shared("qv-r64-bf16", "qv-r64-bf16")).ok());
  EXPECT_FALSE(shared_->Find(Shared("down-r1", "").digest));
  EXPECT_TRUE(shared_->Find(Shared("all-r4", "").digest));
  EXPECT_TRUE(runner_->IsOpen(held->adapter)) << "a sequence still has it";
  EXPECT_TRUE(shared_->Find(Shared("qv-r64-bf16", "").digest));
  ASSERT_TRUE(LoadShared(Shared("saved-r2", "saved-r2")).ok());
  EXPECT_FALSE(store_.Has(Shared("all-r4", "").digest)) << "nobody has it";
}

class RunnerWithoutHostBytesTest : public RunnerSharedAdaptersTest {
 protected:
  RunnerWithoutHostBytesTest() : RunnerSharedAdaptersTest(0) {}
};

TEST_F(RunnerWithoutHostBytesTest, WhatCannotBeOpenedAgainIsLoadedAnew) {
  Make();
  const std::string digest = Shared("all-r4", "").digest;
  ASSERT_TRUE(LoadShared(Shared("all-r4", kSource)).ok());
  ASSERT_TRUE(LoadShared(Shared("down-r1", "down-r1")).ok());
  ASSERT_FALSE(shared_->Find(digest)) << "closed";
  ASSERT_TRUE(store_.Remove(digest).ok());
  const auto again = LoadShared(Shared("all-r4", kSource));
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(RunnerSharedAdaptersTest, WithoutAStoreNothingIsFetched) {
  Make(10, false);
  const auto refused = LoadShared(Shared("all-r4", kSource));
  EXPECT_THAT(Message(refused.status()), HasSubstr("start it with --state-dir"));
  EXPECT_THAT(asked_, IsEmpty());
}

}  // namespace
}  // namespace aril

#include "apps/runner_shared_adapters.h"

#include <filesystem>
#include <future>
#include <optional>

#include "apps/remote_adapters_test_fixture.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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
    shared_.emplace(
        RunnerSharedAdapters::Options{
            .max_kept = max_kept, .num_threads = 2, .max_parallel_per_tenant = 1},
        loop_, *runner_, *local_, fetches ? remote_.get() : nullptr);
  }
  static delivery::SharedAdapter Shared(const std::string& folder,
                                        std::vector<std::string> sources = {}) {
    return {delivery::kFirstSharedAdapter, *DigestOfAdapter(kModel + "/adapters/" + folder),
            std::move(sources)};
  }
  std::future<StatusOr<Ready>> BeginLoad(const delivery::SharedAdapter& what,
                                         const std::string& tenant) {
    auto promise = std::make_shared<std::promise<StatusOr<Ready>>>();
    shared_->Load(what, tenant, [promise](const StatusOr<Ready>& ready, TimePoint) {
      promise->set_value(ready);
    });
    return promise->get_future();
  }
  StatusOr<Ready> LoadShared(const delivery::SharedAdapter& what) {
    StatusOr<Ready> ready = BeginLoad(what, "t").get();
    // The loop's own copy, which holds it open, has gone then.
    std::promise<void> later;
    loop_.Post([&later](TimePoint) { later.set_value(); });
    later.get_future().wait();
    return ready;
  }

  RealClock real_;
  IdleNode node_;
  cluster::NodeLoop loop_{real_};
  std::optional<RunnerSharedAdapters> shared_;
};

TEST_F(RunnerSharedAdaptersTest, FetchesWhatItLacksOnce) {
  Make();
  const delivery::SharedAdapter what = Shared("all-r4", {kSource});
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
  const auto fetched = LoadShared(Shared("down-r1", {kSource}));
  EXPECT_EQ(fetched.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(fetched.status()), HasSubstr("load the adapter again"));
  const auto in_a_folder = LoadShared(Shared("down-r1", {"qv-r64-bf16"}));
  EXPECT_EQ(in_a_folder.status().code(), StatusCode::kFailedPrecondition);
  for (const char* folder : {"all-r4", "qv-r64-bf16"}) {
    EXPECT_FALSE(store_.Has(Shared(folder).digest)) << folder << " is left in the store";
  }
  EXPECT_TRUE(LoadShared(Shared("qv-r64-bf16", {"qv-r64-bf16"})).ok());
}

TEST_F(RunnerSharedAdaptersTest, WhatIsNotThereYetMayComeLater) {
  Make();
  const auto served = std::exchange(served_, {});
  EXPECT_EQ(LoadShared(Shared("all-r4", {kSource})).status().code(), StatusCode::kNotFound);
  served_ = served;
  EXPECT_TRUE(LoadShared(Shared("all-r4", {kSource})).ok());
  EXPECT_EQ(LoadShared(Shared("all-r4", {"https://b.example/x"})).status().code(), StatusCode::kOk)
      << "the same bytes are there";
  EXPECT_EQ(LoadShared(Shared("down-r1", {"https://b.example/x"})).status().code(),
            StatusCode::kInvalidArgument)
      << "not an origin that the operator allows";
}

TEST_F(RunnerSharedAdaptersTest, TheLeastRecentlyUsedMakeRoom) {
  Make(2);
  ASSERT_TRUE(LoadShared(Shared("all-r4", {"all-r4"})).ok());
  const auto held = LoadShared(Shared("down-r1", {"down-r1"}));
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(shared_->Find(Shared("all-r4").digest));
  ASSERT_TRUE(LoadShared(Shared("qv-r64-bf16", {"qv-r64-bf16"})).ok());
  EXPECT_FALSE(shared_->Find(Shared("down-r1").digest));
  EXPECT_TRUE(shared_->Find(Shared("all-r4").digest));
  EXPECT_TRUE(runner_->IsOpen(held->adapter)) << "a sequence still has it";
  EXPECT_TRUE(shared_->Find(Shared("qv-r64-bf16").digest));
  ASSERT_TRUE(LoadShared(Shared("saved-r2", {"saved-r2"})).ok());
  EXPECT_FALSE(store_.Has(Shared("all-r4").digest)) << "nobody has it";
}

class RunnerWithoutHostBytesTest : public RunnerSharedAdaptersTest {
 protected:
  RunnerWithoutHostBytesTest() : RunnerSharedAdaptersTest(0) {}
};

TEST_F(RunnerWithoutHostBytesTest, WhatCannotBeOpenedAgainIsLoadedAnew) {
  Make();
  const std::string digest = Shared("all-r4").digest;
  ASSERT_TRUE(LoadShared(Shared("all-r4", {kSource})).ok());
  ASSERT_TRUE(LoadShared(Shared("down-r1", {"down-r1"})).ok());
  ASSERT_FALSE(shared_->Find(digest)) << "closed";
  ASSERT_TRUE(store_.Remove(digest).ok());
  const auto again = LoadShared(Shared("all-r4", {kSource}));
  EXPECT_TRUE(again.ok()) << again.status();
}

// Adapters are served where they lie: there is no store.
class RunnerWithoutStoreTest : public RunnerWithoutHostBytesTest {
 protected:
  RunnerWithoutStoreTest() {
    std::filesystem::copy(kModel + "/adapters", dir_ / "root",
                          std::filesystem::copy_options::recursive);
    in_place_.emplace(
        *runner_,
        LocalAdapters::Options{.roots = AdapterRoots({std::filesystem::canonical(dir_ / "root")})});
    shared_.emplace(RunnerSharedAdapters::Options{}, loop_, *runner_, *in_place_, nullptr);
  }
  std::optional<LocalAdapters> in_place_;
};

TEST_F(RunnerWithoutStoreTest, ClosedFilesThatMovedAreFoundThere) {
  const delivery::SharedAdapter before = Shared("all-r4", {"all-r4"});
  ASSERT_TRUE(LoadShared(before).ok());
  ASSERT_TRUE(LoadShared(Shared("down-r1", {"down-r1"})).ok());
  ASSERT_FALSE(shared_->Find(before.digest)) << "closed";
  std::filesystem::rename(dir_ / "root/all-r4", dir_ / "root/moved");
  const auto moved = LoadShared(Shared("all-r4", {"moved"}));
  EXPECT_TRUE(moved.ok()) << moved.status();
}

TEST_F(RunnerSharedAdaptersTest, OneSourceOfSeveralIsEnough) {
  Make();
  EXPECT_TRUE(LoadShared(Shared("all-r4", {"https://a.example/gone", "", kSource})).ok());
  EXPECT_TRUE(LoadShared(Shared("down-r1", {"qv-r64-bf16", "down-r1"})).ok())
      << "other bytes are at the first";
}

TEST_F(RunnerSharedAdaptersTest, OnlyTheTenantsOwnSourceIsNamed) {
  Make();
  const auto gone =
      LoadShared(Shared("all-r4", {"https://a.example/gone", "https://a.example/secret"}));
  EXPECT_EQ(gone.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(gone.status()), HasSubstr("https://a.example/gone"));
  EXPECT_THAT(Message(gone.status()), Not(HasSubstr("secret")));
  const auto without = LoadShared(Shared("all-r4", {"", "https://a.example/secret"}));
  EXPECT_EQ(without.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(without.status()), HasSubstr("load the adapter again"));
  EXPECT_THAT(Message(without.status()), Not(HasSubstr("secret")));
}

TEST_F(RunnerSharedAdaptersTest, ASlowSourceHoldsUpItsTenantAlone) {
  std::promise<void> answers;
  slow_ = answers.get_future().share();
  Make();
  auto slow = BeginLoad(Shared("all-r4", {kSource}), "a");
  auto behind = BeginLoad(Shared("qv-r64-bf16", {"qv-r64-bf16"}), "a");
  EXPECT_TRUE(BeginLoad(Shared("down-r1", {"down-r1"}), "b").get().ok());
  EXPECT_FALSE(shared_->Find(Shared("qv-r64-bf16").digest)) << "a has one at a time here";
  answers.set_value();
  EXPECT_TRUE(slow.get().ok());
  EXPECT_TRUE(behind.get().ok());
}

TEST_F(RunnerSharedAdaptersTest, WithoutAStoreNothingIsFetched) {
  Make(10, false);
  const auto refused = LoadShared(Shared("all-r4", {kSource}));
  EXPECT_THAT(Message(refused.status()), HasSubstr("start it with --state-dir"));
  EXPECT_THAT(asked_, IsEmpty());
}

}  // namespace
}  // namespace aril

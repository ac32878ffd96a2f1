#include "adapters/adapter_set.h"

#include <atomic>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/test_paths.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");

Adapter Open(const std::string& name) {
  const auto base = LoadModelSpec(kModel);
  CHECK(base.ok());
  auto adapter = Adapter::OpenWithoutBase(kModel + "/adapters/" + name, *base, kMaxLoraRank);
  CHECK(adapter.ok());
  return *std::move(adapter);
}

TEST(AdapterSet, FindsWhatWasAdded) {
  AdapterSet set;
  EXPECT_EQ(set.Add(Open("all-r4")), AdapterId(0));
  EXPECT_EQ(set.Add(Open("down-r1")), AdapterId(1));
  EXPECT_EQ(set.size(), 2);
  const auto found = set.Find(AdapterId(1));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->id, AdapterId(1));
  EXPECT_EQ(found->adapter->spec().MaxRank(), 1);
  EXPECT_FALSE(set.Find(AdapterId(2)).ok());
}

TEST(AdapterSet, TheBaseModelIsAlwaysThere) {
  const AdapterSet set;
  const auto base = set.Find(kBaseModel);
  ASSERT_TRUE(base.ok());
  EXPECT_EQ(base->id, kBaseModel);
  EXPECT_EQ(base->adapter, nullptr);
}

TEST(AdapterSet, WhoHasAnAdapterKeepsItAndItsIdIsNotGivenAgain) {
  AdapterSet set;
  const AdapterId id = set.Add(Open("all-r4"));
  const auto kept = set.Find(id);
  set.Remove(id);
  set.Remove(id);
  EXPECT_FALSE(set.Find(id).ok());
  EXPECT_EQ(set.size(), 0);
  EXPECT_EQ(kept->adapter->spec().MaxRank(), 4);
  EXPECT_EQ(set.Add(Open("all-r4")), AdapterId(1));
}

TEST(AdapterSet, AnAdapterMayBeOpenedWhenItIsWantedFirst) {
  AdapterSet set;
  int num_opened = 0;
  bool is_there = false;
  const AdapterId id = set.AddUnopened([&]() -> StatusOr<Adapter> {
    ++num_opened;
    if (!is_there) return NotFound("no such file");
    return Open("all-r4");
  });
  EXPECT_EQ(num_opened, 0);
  EXPECT_EQ(Message(set.Find(id).status()), "no such file");
  is_there = true;
  ASSERT_TRUE(set.Find(id).ok()) << "it is tried again";
  EXPECT_EQ(set.Find(id)->adapter, set.Find(id)->adapter);
  EXPECT_EQ(num_opened, 2);
  set.Remove(id);
  EXPECT_EQ(set.Find(id).status().code(), StatusCode::kNotFound);
}

TEST(AdapterSet, ThreadsMayAddAndRemoveAtOnce) {
  AdapterSet set;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&set] {
      for (int i = 0; i < 5; ++i) {
        const AdapterId id = set.Add(Open("down-r1"));
        EXPECT_TRUE(set.Find(id).ok());
        if (i % 2 == 0) set.Remove(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(set.size(), 4 * 2);
}

// A set whose budget holds two of its adapters, which are all of one size.
class BoundedAdapterSetTest : public ::testing::Test {
 protected:
  static constexpr int kNumAdapters = 4;
  static int64_t BytesOfOne() { return OpenIt().held_bytes(); }
  static Adapter OpenIt() { return aril::Open("all-r4"); }

  BoundedAdapterSetTest() {
    for (int i = 0; i < kNumAdapters; ++i) {
      set_.AddUnopened([this]() -> StatusOr<Adapter> {
        ++num_opened_;
        return OpenIt();
      });
    }
  }
  AdapterRef Find(int32_t id) {
    const auto found = set_.Find(AdapterId(id));
    CHECK(found.ok());
    EXPECT_NE(found->adapter, nullptr);
    return *found;
  }
  std::vector<int32_t> OpenIds() const {
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < kNumAdapters; ++id) {
      if (set_.IsOpen(AdapterId(id))) ids.push_back(id);
    }
    return ids;
  }

  std::atomic<int> num_opened_ = 0;
  const int64_t bytes_ = BytesOfOne();
  AdapterSet set_{2 * bytes_};
};

using Ids = std::vector<int32_t>;

TEST_F(BoundedAdapterSetTest, TheLeastRecentlyUsedIsClosedAndOpenedAgain) {
  Find(0);
  Find(1);
  Find(0);
  EXPECT_EQ(OpenIds(), (Ids{0, 1}));
  Find(2);
  EXPECT_EQ(OpenIds(), (Ids{0, 2}));
  EXPECT_EQ(set_.open_bytes(), 2 * bytes_);
  EXPECT_EQ(set_.num_closed(), 1);
  EXPECT_EQ(num_opened_, 3);
  Find(1);
  EXPECT_EQ(num_opened_, 4);
  EXPECT_EQ(OpenIds(), (Ids{1, 2}));
}

TEST_F(BoundedAdapterSetTest, WhatSomebodyHasStaysOpenAndCounts) {
  AdapterRef first = Find(0);
  const AdapterRef second = Find(1);
  const AdapterRef third = Find(2);
  EXPECT_EQ(OpenIds(), (Ids{0, 1, 2}));
  EXPECT_EQ(set_.open_bytes(), 3 * bytes_);
  first.adapter = nullptr;
  Find(3);
  EXPECT_EQ(OpenIds(), (Ids{1, 2, 3})) << "the one that is just used is held by the caller";
  Find(1);
  EXPECT_EQ(OpenIds(), (Ids{1, 2}));
}

TEST_F(BoundedAdapterSetTest, WhoMayNotWaitGetsWhatIsOpen) {
  EXPECT_EQ(set_.FindOpen(AdapterId(0)), nullptr);
  EXPECT_EQ(set_.FindOpen(AdapterId(99)), nullptr);
  EXPECT_EQ(num_opened_, 0);
  Find(0);
  const auto held = set_.FindOpen(AdapterId(0));
  EXPECT_NE(held, nullptr);
  for (const int32_t id : {1, 2, 3}) Find(id);
  EXPECT_EQ(OpenIds(), (Ids{0, 3}));
  EXPECT_EQ(num_opened_, 4);
}

TEST_F(BoundedAdapterSetTest, WhatCannotBeOpenedAgainStaysOpen) {
  const AdapterId id = set_.Add(OpenIt());
  Find(0);
  Find(1);
  Find(2);
  EXPECT_TRUE(set_.IsOpen(id));
  EXPECT_EQ(OpenIds(), (Ids{2}));
  set_.SetOpen(
      id, []() -> StatusOr<Adapter> { return NotFound("gone"); }, nullptr);
  Find(3);
  EXPECT_FALSE(set_.IsOpen(id)) << "the least recently used one";
  EXPECT_EQ(set_.Find(id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(set_.open_bytes(), 2 * bytes_);
}

TEST_F(BoundedAdapterSetTest, WhatIsRemovedDoesNotCount) {
  const AdapterRef kept = Find(0);
  set_.Remove(AdapterId(0));
  EXPECT_EQ(set_.open_bytes(), 0);
  EXPECT_EQ(kept.adapter->spec().MaxRank(), 4);
  EXPECT_EQ(set_.num_closed(), 0) << "not for want of room";
  set_.SetOpen(AdapterId(0), nullptr, nullptr);
}

TEST_F(BoundedAdapterSetTest, ManyMayWantThemAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        const AdapterRef ref = Find((i * (t + 1)) % kNumAdapters);
        EXPECT_EQ(ref.adapter->spec().MaxRank(), 4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Find(0);
  EXPECT_LE(set_.open_bytes(), 2 * bytes_);
}

}  // namespace
}  // namespace aril

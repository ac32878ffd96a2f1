#include "adapters/adapter_set.h"

#include <thread>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

const std::string kModel = ARIL_SOURCE_DIR "/tests/goldens/llama-f32-sharded";

Adapter Open(const std::string& name) {
  const auto base = LoadModelSpec(kModel);
  CHECK(base.ok());
  auto adapter = Adapter::Open(kModel + "/adapters/" + name, *base, kMaxLoraRank);
  CHECK(adapter.ok());
  return *std::move(adapter);
}

TEST(AdapterSet, FindsWhatWasAdded) {
  AdapterSet set;
  EXPECT_EQ(set.Add(Open("all-r4")), AdapterId(0));
  EXPECT_EQ(set.Add(Open("down-r1")), AdapterId(1));
  EXPECT_EQ(set.size(), 2);
  const auto found = set.Find(AdapterId(1));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->id, AdapterId(1));
  EXPECT_EQ(found->adapter->spec().MaxRank(), 1);
  EXPECT_FALSE(set.Find(AdapterId(2)).has_value());
}

TEST(AdapterSet, TheBaseModelIsAlwaysThere) {
  const AdapterSet set;
  const auto base = set.Find(kBaseModel);
  ASSERT_TRUE(base.has_value());
  EXPECT_EQ(base->id, kBaseModel);
  EXPECT_EQ(base->adapter, nullptr);
}

TEST(AdapterSet, WhoHasAnAdapterKeepsItAndItsIdIsNotGivenAgain) {
  AdapterSet set;
  const AdapterId id = set.Add(Open("all-r4"));
  const auto kept = set.Find(id);
  set.Remove(id);
  set.Remove(id);
  EXPECT_FALSE(set.Find(id).has_value());
  EXPECT_EQ(set.size(), 0);
  EXPECT_EQ(kept->adapter->spec().MaxRank(), 4);
  EXPECT_EQ(set.Add(Open("all-r4")), AdapterId(1));
}

TEST(AdapterSet, ThreadsMayAddAndRemoveAtOnce) {
  AdapterSet set;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&set] {
      for (int i = 0; i < 5; ++i) {
        const AdapterId id = set.Add(Open("down-r1"));
        EXPECT_TRUE(set.Find(id).has_value());
        if (i % 2 == 0) set.Remove(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(set.size(), 4 * 2);
}

}  // namespace
}  // namespace aril

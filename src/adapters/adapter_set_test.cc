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

}  // namespace
}  // namespace aril

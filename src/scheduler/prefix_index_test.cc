#include "scheduler/prefix_index.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::PrefixMark;

using Marks = std::vector<PrefixMark>;

const RunnerId kA(1), kB(2);
constexpr uint64_t kSecret = 5;

TEST(PrefixIndexTest, KnowsWhomAPromptWasPlacedOn) {
  PrefixIndex index(100, kSecret);
  index.Add(kA, 1000, Marks{1, 2, 3});
  index.Add(kB, 1000, Marks{1, 2});
  EXPECT_THAT(index.HoldersOf(2), ElementsAre(kA, kB));
  EXPECT_THAT(index.HoldersOf(3), ElementsAre(kA));
  EXPECT_THAT(index.HoldersOf(4), IsEmpty());
  EXPECT_EQ(index.TokensOn(kA, Marks{1, 2, 3, 4}), 192);
  EXPECT_EQ(index.TokensOn(kB, Marks{1, 2, 3, 4}), 128);
  EXPECT_EQ(index.TokensOn(kB, Marks{7}), 0);
  EXPECT_EQ(index.TokensOn(RunnerId(9), Marks{1}), 0);
  index.Add(kA, 1000, Marks{1});
  EXPECT_THAT(index.HoldersOf(1), ElementsAre(kB, kA)) << "the last one is the latest";
  EXPECT_EQ(index.num_marks(), 5u);
}

TEST(PrefixIndexTest, ForgetsTheEndsOfOldPromptsFirst) {
  PrefixIndex index(100, kSecret);
  index.Add(kA, 6 * 64, Marks{1, 2, 3});
  index.Add(kA, 6 * 64, Marks{1, 4, 5});
  EXPECT_EQ(index.TokensOn(kA, Marks{1, 2, 3}), 192) << "what is alike is there once";
  index.Add(kA, 6 * 64, Marks{6, 7});
  EXPECT_EQ(index.TokensOn(kA, Marks{1, 2, 3}), 128);
  EXPECT_EQ(index.TokensOn(kA, Marks{1, 4, 5}), 192);
  index.Add(kA, 64, Marks{8, 9});
  EXPECT_EQ(index.TokensOn(kA, Marks{8, 9}), 64) << "its own end, too";
  EXPECT_EQ(index.num_marks(), 1u);
  index.Add(kA, 0, Marks{8});
  EXPECT_EQ(index.num_marks(), 0u);
}

TEST(PrefixIndexTest, RunnersHaveEvenParts) {
  PrefixIndex index(4, kSecret);
  index.Add(kA, 10'000, Marks{1, 2, 3, 4, 5});
  EXPECT_EQ(index.num_marks(), 4u);
  index.Add(kB, 10'000, Marks{6});
  EXPECT_EQ(index.num_marks(), 3u);
  index.Forget(kA);
  index.Forget(kA);
  EXPECT_THAT(index.HoldersOf(1), IsEmpty());
  EXPECT_EQ(index.num_marks(), 1u);
  index.Add(kB, 10'000, Marks{6, 7, 8});
  EXPECT_EQ(index.num_marks(), 3u);
  index.Add(kB, 10'000, {});
  EXPECT_EQ(index.num_marks(), 3u);
}

TEST(PrefixIndexTest, TheOldestHolderIsForgotten) {
  PrefixIndex index(100, kSecret);
  for (int32_t id = 0; id <= static_cast<int32_t>(PrefixIndex::kMaxHolders); ++id) {
    index.Add(RunnerId(id), 1000, Marks{1, static_cast<PrefixMark>(100 + id)});
  }
  EXPECT_EQ(index.HoldersOf(1).size(), PrefixIndex::kMaxHolders);
  EXPECT_EQ(index.HoldersOf(1).front(), RunnerId(1));
  EXPECT_EQ(index.TokensOn(RunnerId(0), Marks{1}), 0);
  EXPECT_EQ(index.TokensOn(RunnerId(0), Marks{1, 100}), 128) << "that of it alone is there";
}

TEST(PrefixIndexTest, EqualMarksOfTwoTenantsAreTwo) {
  const PrefixIndex index(100, kSecret), other(100, kSecret + 1);
  const Marks marks = {1, 2, 3};
  const Marks keys = index.KeysOf(0, marks);
  EXPECT_EQ(keys, index.KeysOf(0, marks));
  EXPECT_EQ(index.KeysOf(0, Marks{1, 2}), Marks(keys.begin(), keys.begin() + 2));
  for (const Marks& others : {marks, index.KeysOf(1, marks), other.KeysOf(0, marks)}) {
    for (size_t i = 0; i < marks.size(); ++i) EXPECT_NE(keys[i], others[i]);
  }
}

// Against lists that are looked through.
TEST(PrefixIndexTest, DoesWhatListsWouldDo) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  const auto draw = [&](uint64_t below) { return random() % below; };
  constexpr size_t kMaxMarks = 60;
  struct Entry {
    PrefixMark mark = 0;
    int64_t num_tokens = 0;
  };
  std::map<RunnerId, std::vector<Entry>> lists;
  std::map<RunnerId, int64_t> limits;
  std::map<PrefixMark, std::vector<RunnerId>> holders;
  const auto drop = [&](RunnerId id, PrefixMark mark) {
    std::erase_if(lists.at(id), [&](const Entry& entry) { return entry.mark == mark; });
    std::erase(holders[mark], id);
  };
  const auto trim = [&](RunnerId id) {
    const auto tokens = [&] {
      int64_t sum = 0;
      for (const Entry& entry : lists.at(id)) sum += entry.num_tokens;
      return sum;
    };
    while (tokens() > limits.at(id) || lists.at(id).size() > kMaxMarks / lists.size()) {
      drop(id, lists.at(id).front().mark);
    }
  };
  PrefixIndex index(kMaxMarks, kSecret);
  for (int step = 0; step < 3000; ++step) {
    const RunnerId id(static_cast<int32_t>(draw(12)));
    if (draw(20) == 0) {
      index.Forget(id);
      for (const Entry& entry : std::vector<Entry>(lists[id])) drop(id, entry.mark);
      lists.erase(id);
    } else {
      // Of a tree of prompts.
      Marks marks;
      PrefixMark mark = 1;
      for (size_t length = draw(6) + 1; marks.size() < length;) {
        mark = mark * 3 + draw(2);
        marks.push_back(mark);
      }
      const bool is_new = !lists.contains(id);
      limits[id] = static_cast<int64_t>(draw(12)) * 64;
      index.Add(id, limits[id], marks);
      lists[id];
      for (size_t i = marks.size(); i-- > 0;) {
        if (std::ranges::count(holders[marks[i]], id) == 0 &&
            holders[marks[i]].size() == PrefixIndex::kMaxHolders) {
          drop(holders[marks[i]].front(), marks[i]);
        }
        drop(id, marks[i]);
        lists[id].push_back({marks[i], 64});
        holders[marks[i]].push_back(id);
      }
      for (const auto& [each, list] : lists) {
        if (is_new || each == id) trim(each);
      }
    }
    size_t num_marks = 0;
    for (const auto& [each, list] : lists) num_marks += list.size();
    ASSERT_EQ(index.num_marks(), num_marks) << "step " << step;
    for (const auto& [mark, ids] : holders) {
      ASSERT_THAT(index.HoldersOf(mark), ::testing::ElementsAreArray(ids)) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace aril::scheduler

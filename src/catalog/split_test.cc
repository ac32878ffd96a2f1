// How names divide their requests, and that they stay so over moves and restarts.

#include "catalog/split.h"

#include <cmath>
#include <map>

#include "base/strings.h"
#include "base/test_dir.h"
#include "catalog/registry.h"
#include "catalog/restore_entry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::shared_ptr<const Generation> MakeGeneration(int32_t id, Generation::Hooks hooks = {}) {
  return std::make_shared<const Generation>(
      Generation::Description{
          .adapter = AdapterId(id), .digest = StrCat("g", id), .rank = id, .bytes = 100},
      std::move(hooks));
}

// Generations 1, 2, … with these weights.
StatusOr<CatalogEntry> Make(const std::vector<int64_t>& weights) {
  std::vector<SplitTarget> targets;
  for (const int64_t weight : weights) {
    const auto id = static_cast<int32_t>(targets.size() + 1);
    targets.push_back({MakeGeneration(id), weight, StrCat("a", id)});
  }
  return MakeSplit("prod", "base", targets);
}

// The share, from 0, of a user.
size_t ShareOf(const CatalogEntry& entry, int user) {
  const uint64_t point = SplitPoint("acme", "prod", "key", StrCat("user-", user));
  const CatalogShare& chosen = ChooseShare(entry, point);
  return static_cast<size_t>(&chosen - entry.shares.data());
}

TEST(Split, DividesByWeight) {
  constexpr int kNumUsers = 20'000;
  for (const std::vector<int64_t>& weights :
       {std::vector<int64_t>{95, 5}, {1, 1}, {1, 2, 3, 4}, {1'000'000, 1}, {7, 7, 7}}) {
    const auto entry = Make(weights);
    ASSERT_TRUE(entry.ok()) << entry.status();
    std::vector<int> counts(weights.size());
    for (int user = 0; user < kNumUsers; ++user) ++counts[ShareOf(*entry, user)];
    double total = 0;
    for (const int64_t weight : weights) total += static_cast<double>(weight);
    for (size_t i = 0; i < weights.size(); ++i) {
      const double p = static_cast<double>(weights[i]) / total;
      // Five standard deviations of a binomial distribution, and one for whole numbers. The keys
      // are fixed, so that this holds always or never.
      const double bound = 5 * std::sqrt(kNumUsers * p * (1 - p)) + 1;
      EXPECT_NEAR(counts[i], p * kNumUsers, bound) << "share " << i << " of " << Join(weights, ":");
    }
  }
}

TEST(Split, OnlyThoseChangeSidesWhomABorderHasPassed) {
  const auto before = Make({95, 5});
  const auto after = Make({90, 10});
  ASSERT_TRUE(before.ok() && after.ok());
  constexpr int kNumUsers = 20'000;
  int num_moved = 0;
  for (int user = 0; user < kNumUsers; ++user) {
    const size_t from = ShareOf(*before, user);
    const size_t to = ShareOf(*after, user);
    EXPECT_LE(from, to) << "nobody comes back";
    num_moved += from != to ? 1 : 0;
  }
  EXPECT_NEAR(num_moved, 0.05 * kNumUsers, 5 * std::sqrt(kNumUsers * 0.05 * 0.95));
  // The same proportions are the same borders.
  const auto scaled = Make({950, 50});
  for (int user = 0; user < 1000; ++user) EXPECT_EQ(ShareOf(*before, user), ShareOf(*scaled, user));
}

TEST(Split, TheEndsOfTheLineBelongToTheOuterShares) {
  const auto entry = Make({3, 1});
  ASSERT_TRUE(entry.ok());
  const auto share_at = [&](uint64_t point) { return ChooseShare(*entry, point).share.digest; };
  constexpr uint64_t kBorder = uint64_t{3} << 62;  // three quarters of 2^64
  EXPECT_EQ(share_at(0), "g1");
  EXPECT_EQ(share_at(kBorder - 1), "g1");
  EXPECT_EQ(share_at(kBorder), "g2");
  EXPECT_EQ(share_at(UINT64_MAX), "g2");
  const auto largest = Make(std::vector<int64_t>(kMaxSplitShares, kMaxSplitWeight));
  EXPECT_EQ(ChooseShare(*largest, UINT64_MAX).share.digest, "g16");
}

TEST(Split, PointsDependOnWhoAsksForWhat) {
  const uint64_t point = SplitPoint("acme", "prod", "key", "7");
  EXPECT_EQ(point, SplitPoint("acme", "prod", "key", "7"));
  EXPECT_NE(point, SplitPoint("zeta", "prod", "key", "7"));
  EXPECT_NE(point, SplitPoint("acme", "test", "key", "7"));
  EXPECT_NE(point, SplitPoint("acme", "prod", "seed", "7"));
  EXPECT_NE(SplitPoint("a", "bc", "key", "7"), SplitPoint("ab", "c", "key", "7"));
}

TEST(Split, SaysWhatIsWrong) {
  const auto error = [](const std::vector<int64_t>& weights) {
    const auto entry = Make(weights);
    EXPECT_EQ(entry.status().code(), StatusCode::kInvalidArgument);
    return Message(entry.status());
  };
  EXPECT_THAT(error({}), HasSubstr("2 to 16 shares, not 0"));
  EXPECT_THAT(error({1}), HasSubstr("2 to 16 shares, not 1"));
  EXPECT_THAT(error(std::vector<int64_t>(17, 1)), HasSubstr("not 17"));
  EXPECT_THAT(error({1, 0}), HasSubstr("from 1 to 1000000, not 0"));
  EXPECT_THAT(error({1, 1'000'001}), HasSubstr("not 1000001"));
  const auto twice = MakeSplit("prod", "base", {{MakeGeneration(1), 1}, {MakeGeneration(1), 2}});
  EXPECT_THAT(Message(twice.status()), HasSubstr("g1 has two shares"));
}

TEST(Split, IsWhatItsSharesAreTogether) {
  int num_pins = 0;
  const auto part = [&](int32_t id, Generation::Residence residence, bool fits) {
    return MakeGeneration(
        id, {.residence = [residence] { return residence; },
             .pin = [&num_pins,
                     fits](const std::string& tenant) -> StatusOr<std::shared_ptr<const void>> {
               EXPECT_EQ(tenant, "acme");
               if (!fits) return FailedPrecondition("no room");
               ++num_pins;
               return std::shared_ptr<const void>(&num_pins,
                                                  [](const int* n) { --*const_cast<int*>(n); });
             }});
  };
  const auto split = [&](bool fits) {
    return *MakeSplit("prod", "base",
                      {{part(1, Generation::Residence::kPool, true), 1},
                       {part(2, Generation::Residence::kHost, fits), 1}});
  };
  const CatalogEntry entry = split(true);
  EXPECT_EQ((*entry.generation)->rank, 2);
  EXPECT_EQ((*entry.generation)->bytes, 200);
  EXPECT_EQ(entry.adapter(), kNoAdapter) << "no request may use it";
  EXPECT_EQ(entry.generation->residence(), Generation::Residence::kHost);
  {
    const auto pin = entry.generation->Pin("acme");
    ASSERT_TRUE(pin.ok());
    EXPECT_EQ(num_pins, 2);
  }
  EXPECT_EQ(num_pins, 0);
  EXPECT_FALSE(split(false).generation->Pin("acme").ok());
  EXPECT_EQ(num_pins, 0) << "all or none";
}

TEST(Split, ItsDigestIsItsWeightsAndGenerations) {
  const auto digest = [](const std::vector<int64_t>& weights) {
    return (*Make(weights)->generation)->digest;
  };
  EXPECT_EQ(digest({95, 5}), digest({95, 5}));
  EXPECT_NE(digest({95, 5}), digest({5, 95}));
  EXPECT_THAT(digest({95, 5}), HasSubstr("split:"));
}

class SplitCatalogTest : public ::testing::Test {
 protected:
  SplitCatalogTest() { Open(); }
  void Open() {
    catalog_ = nullptr;
    registry_ = nullptr;
    auto registry = Registry::Open(dir_ / "registry", "base");
    ASSERT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
    auto catalog = Catalog::Create(
        {{.name = "base"}}, {.registry = registry_.get(),
                             .on_forgotten = [this](const auto& d) { forgotten_.push_back(d); }});
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    catalog_ = *catalog;
  }
  CatalogEntryPtr Put(CatalogEntry entry, const Catalog::Expected& expected = std::nullopt) {
    auto added = catalog_->Put("acme", std::move(entry), expected);
    EXPECT_TRUE(added.ok()) << added.status();
    return added.ok() ? *added : nullptr;
  }
  static CatalogEntry Plain(int32_t id) {
    return {.name = "prod", .parent = "base", .generation = MakeGeneration(id)};
  }

  TestDir dir_;
  std::vector<std::string> forgotten_;
  std::unique_ptr<Registry> registry_;
  std::shared_ptr<Catalog> catalog_;
};

TEST_F(SplitCatalogTest, IsMovedComparedAndRemembered) {
  Put(Plain(1));
  const CatalogEntryPtr split = Put(*Make({95, 5}), "g1");
  EXPECT_EQ(catalog_->Put("acme", Plain(3), "g1").status().code(), StatusCode::kAborted);
  ASSERT_EQ(split->history.size(), 2u);
  EXPECT_THAT(split->history[0].split, IsEmpty());
  EXPECT_EQ(split->history[1].split.at(1).weight, 5);
  EXPECT_EQ(catalog_->NameOf(AdapterId(2)), "prod");
  split->shares[1].entry->usage->OnRequest(7, "");
  const CatalogEntryPtr again = Put(*Make({90, 10}), (*split->generation)->digest);
  EXPECT_EQ(again->shares[1].entry->usage->Read().requests, 1) << "a share counts on";
  EXPECT_EQ(again->history.size(), 3u);
  EXPECT_THAT(forgotten_, ElementsAre("g3")) << "which could not be put";
}

TEST_F(SplitCatalogTest, WhatIsHeldByASplitIsKeptAndGoesWithIt) {
  Put(Plain(1));
  Put(*Make({95, 5}));
  EXPECT_THAT(*registry_->Generations(), ElementsAre("g1", "g2"));
  EXPECT_TRUE(registry_->Has("g2"));
  Open();
  const auto rows = registry_->List();
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 1u);
  const PastGeneration& last = rows->at(0).history.back();
  EXPECT_EQ(last.digest, DigestOfSplit(last.split));
  std::vector<std::pair<std::string, int64_t>> shares;
  for (const SplitShare& share : last.split) shares.emplace_back(share.digest, share.weight);
  EXPECT_THAT(shares, ElementsAre(Pair("g1", 95), Pair("g2", 5)));
  EXPECT_EQ(last.split[1].adapter, "a2");
  EXPECT_EQ(last.split[1].rank, 2);
  EXPECT_EQ(last.split[1].bytes, 100);
  EXPECT_THAT(rows->at(0).history.front().split, IsEmpty());
  const auto restored = RestoreEntry(rows->at(0), "base", [](const auto& registered) {
    const auto id = static_cast<int32_t>(registered.rank);
    EXPECT_EQ(registered.digest, StrCat("g", id));
    return StatusOr<std::shared_ptr<const Generation>>(MakeGeneration(id));
  });
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ((*restored->generation)->digest, last.digest);
  EXPECT_EQ(restored->shares[1].share.adapter, "a2");
  EXPECT_EQ(restored->owner, "acme");
  EXPECT_EQ(restored->history.size(), 2u);
  EXPECT_THAT(*registry_->Remove("acme", "prod"), ElementsAre("g1", "g2"));
  EXPECT_THAT(*registry_->Generations(), IsEmpty());
}

TEST_F(SplitCatalogTest, ASplitThatLeavesTheHistoryLetsItsSharesGo) {
  Put(*Make({1, 1}));
  for (int32_t id = 10; id < 10 + static_cast<int32_t>(Catalog::kMaxHistory); ++id) Put(Plain(id));
  EXPECT_THAT(forgotten_, ElementsAre("g1", "g2"));
}

TEST_F(SplitCatalogTest, WhatCannotBePutForgetsNothing) {
  Put(Plain(1));
  EXPECT_FALSE(catalog_->Put("acme", *Make({1, 1}), "other").ok());
  EXPECT_THAT(forgotten_, IsEmpty()) << "a split has no files, and its shares are others'";
}

}  // namespace
}  // namespace aril

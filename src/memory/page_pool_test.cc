#include "memory/page_pool.h"

#include <random>

#include "gtest/gtest.h"
#include "memory/arena.h"

namespace aril {
namespace {

TEST(PagePool, AllocatesAllOrNothing) {
  PagePool pool(5);
  std::vector<PageRef> pages;
  ASSERT_TRUE(pool.Allocate(3, PageUse::kKv, pages));
  EXPECT_FALSE(pool.Allocate(3, PageUse::kAdapter, pages));
  EXPECT_EQ(pages.size(), 3u);
  EXPECT_EQ(pool.free(), 2);
  ASSERT_TRUE(pool.Allocate(2, PageUse::kAdapter, pages));
  EXPECT_EQ(pool.used(PageUse::kKv), 3);
  EXPECT_EQ(pool.used(PageUse::kAdapter), 2);
}

TEST(PagePool, AMovedFromRefOwnsNothing) {
  PagePool pool(2);
  std::vector<PageRef> pages;
  ASSERT_TRUE(pool.Allocate(2, PageUse::kKv, pages));
  PageRef taken = std::move(pages[0]);
  pages[1] = std::move(taken);
  EXPECT_EQ(pool.free(), 1);
  pages.clear();
  EXPECT_EQ(pool.free(), 2);
}

TEST(PagePool, ASharedPageComesBackFromItsLastOwner) {
  PagePool pool(2);
  std::vector<PageRef> pages;
  ASSERT_TRUE(pool.Allocate(1, PageUse::kKv, pages));
  {
    const PageRef other = pages[0].Share();
    EXPECT_EQ(other.id(), pages[0].id());
    EXPECT_EQ(pool.used(PageUse::kKv), 1) << "one page, whoever has it";
    pages.clear();
    EXPECT_EQ(pool.free(), 1);
    pool.CheckConservation();
  }
  EXPECT_EQ(pool.free(), 2);
}

// Holds pages that it does without when they are wanted.
struct Holder {
  Holder(PagePool& pool, int64_t num_pages) {
    EXPECT_TRUE(pool.Allocate(num_pages, PageUse::kAdapter, pages));
    Offer(pool);
  }
  void Offer(PagePool& pool) {
    offer = pool.Offer(static_cast<int64_t>(pages.size()), [this] {
      pages.clear();
      offer.Withdraw();
    });
  }
  std::vector<PageRef> pages;
  PageOffer offer;
};

TEST(PagePool, TakesTheOldestOffersAndNoMoreThanItNeeds) {
  PagePool pool(10);
  Holder a(pool, 3);
  Holder b(pool, 2);
  Holder c(pool, 4);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.available(), 10);
  a.offer.Withdraw();
  EXPECT_EQ(pool.available(), 7);
  a.Offer(pool);  // the youngest now

  std::vector<PageRef> pages;
  EXPECT_FALSE(pool.Allocate(11, PageUse::kKv, pages));
  EXPECT_EQ(pool.free(), 1) << "nobody gives way for what does not fit";
  ASSERT_TRUE(pool.Allocate(1, PageUse::kKv, pages));
  EXPECT_EQ(b.pages.size(), 2u) << "there was a free one";
  ASSERT_TRUE(pool.Allocate(3, PageUse::kKv, pages));
  EXPECT_TRUE(b.pages.empty());
  EXPECT_TRUE(c.pages.empty());
  EXPECT_EQ(a.pages.size(), 3u);
  EXPECT_EQ(pool.available(), 6);
  pool.CheckConservation();
}

TEST(PagePool, OffersMoveAndEndOnce) {
  PagePool pool(4);
  Holder holder(pool, 2);
  PageOffer moved = std::move(holder.offer);
  EXPECT_EQ(pool.available(), 4);
  PageOffer& same = moved;
  moved = std::move(same);
  EXPECT_EQ(pool.available(), 4);
  moved = PageOffer();
  EXPECT_EQ(pool.available(), 2);
  holder.Offer(pool);
  { const PageOffer last = std::move(holder.offer); }
  EXPECT_EQ(pool.available(), 2);
}

TEST(PagePoolDeathTest, ChecksWhatIsGivenBack) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  PagePool pool(1);
  std::vector<PageRef> pages;
  ASSERT_TRUE(pool.Allocate(1, PageUse::kKv, pages));
  const PageOffer offer = pool.Offer(1, [] {});
  std::vector<PageRef> more;
  EXPECT_DEATH((void)pool.Allocate(1, PageUse::kKv, more), "free");
}

// Random allocations and releases against a model that knows who owns what.
TEST(PagePool, ConservesPagesUnderRandomUse) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    constexpr int32_t kPages = 64;
    std::vector<bool> freed(kPages, false);
    PagePool pool(kPages, [&](PageId id) { freed[static_cast<size_t>(id.value())] = true; });
    std::vector<std::pair<PageUse, std::vector<PageRef>>> owners;
    int64_t owned[kNumPageUses] = {};
    for (int step = 0; step < 2000; ++step) {
      const auto use = static_cast<PageUse>(random() % kNumPageUses);
      const auto count = static_cast<int64_t>(random() % 9);
      if (random() % 2 == 0 || owners.empty()) {
        std::vector<PageRef> pages;
        const bool fits = count <= kPages - owned[0] - owned[1];
        ASSERT_EQ(pool.Allocate(count, use, pages), fits);
        if (!fits) continue;
        owned[static_cast<int>(use)] += count;
        owners.emplace_back(use, std::move(pages));
      } else {
        const size_t victim = random() % owners.size();
        std::swap(owners[victim], owners.back());
        owned[static_cast<int>(owners.back().first)] -=
            static_cast<int64_t>(owners.back().second.size());
        owners.pop_back();
      }
      ASSERT_EQ(pool.free() + owned[0] + owned[1], pool.total());
      ASSERT_EQ(pool.used(PageUse::kKv), owned[static_cast<int>(PageUse::kKv)]);
      pool.CheckConservation();
      std::vector<bool> seen(kPages, false);
      for (const auto& owner : owners) {
        for (const PageRef& page : owner.second) {
          ASSERT_FALSE(seen[static_cast<size_t>(page.id().value())]) << "a page has two owners";
          seen[static_cast<size_t>(page.id().value())] = true;
        }
      }
    }
    owners.clear();
    EXPECT_EQ(pool.free(), kPages);
  }
}

TEST(Arena, PagesAreApartAndPoisonIsNaN) {
  const HostArena arena(3, 64);
  EXPECT_EQ(arena.Address(PageId(2)) - arena.Address(PageId(0)), 128);
  arena.Poison(PageId(1));
  float value;
  std::memcpy(&value, arena.Address(PageId(1)) + 60, sizeof(value));
  EXPECT_NE(value, value);
  EXPECT_EQ(*arena.Address(PageId(2)), std::byte{0});
}

}  // namespace
}  // namespace aril

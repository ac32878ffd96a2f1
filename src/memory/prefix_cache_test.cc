#include "memory/prefix_cache.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kPageTokens = 2;

using Tokens = std::vector<int32_t>;

// One that applies to the tokens from some token on.
AdapterFrom From(int32_t adapter, int64_t first_token = 0) {
  return {{.id = AdapterId(adapter)}, first_token};
}

// A sequence, as far as the cache is concerned.
struct User {
  PrefixCache::Pin pin;
  std::vector<PageRef> pages;  // goes before the pin

  std::vector<PageId> ids() const {
    std::vector<PageId> ids;
    for (const PageRef& page : pages) ids.push_back(page.id());
    return ids;
  }
};

class PrefixCacheTest : public ::testing::Test {
 protected:
  // What an engine does: takes what is there, computes the rest, and caches the full pages.
  User Run(const PrefixSource& source, const Tokens& tokens) {
    User user = Take(source, tokens);
    Extend(user, tokens);
    return user;
  }
  User Take(const PrefixSource& source, const Tokens& tokens) {
    User user;
    user.pin = cache_.Take(source, tokens, user.pages);
    return user;
  }
  void Extend(User& user, const Tokens& tokens) {
    const size_t num_pages = tokens.size() / kPageTokens;
    const auto missing = static_cast<int64_t>(num_pages - user.pages.size());
    ASSERT_TRUE(pool_.Allocate(missing, PageUse::kKv, user.pages));
    for (auto i = static_cast<size_t>(user.pin.num_pages()); i < num_pages; ++i) {
      cache_.Extend(user.pin, std::span(tokens).subspan(i * kPageTokens, kPageTokens),
                    user.pages[i]);
    }
  }
  std::vector<PageId> Found(const PrefixSource& source, const Tokens& tokens) const {
    return cache_.Find(source, tokens).pages;
  }
  // Takes all pages that are available but for `count`.
  void LeaveAvailable(int64_t count) {
    ASSERT_TRUE(pool_.Allocate(pool_.available() - count, PageUse::kAdapter, taken_));
  }

  const PrefixSource source_{"tenant", {From(1)}};
  PagePool pool_{20};
  PrefixCache cache_{pool_, {.page_tokens = kPageTokens}};
  std::vector<PageRef> taken_;
};

TEST_F(PrefixCacheTest, FindsTheLongestRunOfFullPages) {
  const User user = Run(source_, {1, 2, 3, 4, 5});
  const PageId first = user.pages[0].id();
  const PageId second = user.pages[1].id();
  EXPECT_THAT(Found(source_, Tokens{1, 2, 3, 4, 5, 6}), ElementsAre(first, second));
  EXPECT_THAT(Found(source_, Tokens{1, 2, 3, 4}), ElementsAre(first, second));
  EXPECT_THAT(Found(source_, Tokens{1, 2, 3}), ElementsAre(first)) << "half a page is none";
  EXPECT_THAT(Found(source_, Tokens{1, 2, 3, 5}), ElementsAre(first));
  EXPECT_THAT(Found(source_, Tokens{3, 4}), IsEmpty()) << "the same tokens, elsewhere";
  EXPECT_THAT(Found(source_, Tokens{1}), IsEmpty());
  EXPECT_THAT(Found(source_, Tokens{}), IsEmpty());
}

TEST_F(PrefixCacheTest, SharesNothingAcrossTenantsAndAdapters) {
  const Tokens tokens = {1, 2, 3, 4};
  const User user = Run(source_, tokens);
  EXPECT_THAT(Found({"other", {From(1)}}, tokens), IsEmpty());
  EXPECT_THAT(Found({"tenant", {From(2)}}, tokens), IsEmpty());
  EXPECT_THAT(Found({"tenant", {}}, tokens), IsEmpty());
  const User other = Run({"other", {From(1)}}, tokens);
  EXPECT_NE(other.ids(), user.ids());
  EXPECT_EQ(cache_.num_tenants(), 2);
}

TEST_F(PrefixCacheTest, SharesWhatIsBeforeTheFirstTokenOfAnAdapter) {
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  const User base = Run({"tenant", {}}, tokens);
  const auto num_found = [&](const std::vector<AdapterFrom>& adapters) {
    return Found({"tenant", adapters}, tokens).size();
  };
  EXPECT_EQ(num_found({From(1, 8)}), 4) << "the first behind what is cached";
  EXPECT_EQ(num_found({From(1, 7)}), 3) << "a page of both is nobody else's";
  EXPECT_EQ(num_found({From(1, 6)}), 3);
  EXPECT_EQ(num_found({From(1, 5)}), 2);
  EXPECT_EQ(num_found({From(1, 1)}), 0);
  EXPECT_EQ(num_found({From(1, 6), From(2, 4)}), 2)
      << "of several adapters, the first that applies";
  EXPECT_EQ(num_found({From(1, 6), From(2)}), 0);

  const User invoked = Run({"tenant", {From(1, 5)}}, tokens);
  EXPECT_EQ(pool_.used(PageUse::kKv), 4 + 2);
  EXPECT_EQ(num_found({From(1, 5)}), 4);
  EXPECT_EQ(num_found({From(1, 4)}), 2) << "the same page, from another of its tokens on";
  EXPECT_EQ(num_found({From(2, 5)}), 2);
  EXPECT_EQ(num_found({From(1, 5), From(2, 6)}), 3);
  EXPECT_EQ(num_found({}), 4) << "the base model's own";
}

TEST_F(PrefixCacheTest, AnAdapterOfTheSameFirstTokenInOtherOrderIsAnother) {
  const Tokens tokens = {1, 2, 3, 4};
  const User user = Run({"tenant", {From(1, 2), From(2, 2)}}, tokens);
  EXPECT_THAT(Found({"tenant", {From(1, 2), From(2, 2)}}, tokens), SizeIs(2));
  EXPECT_THAT(Found({"tenant", {From(2, 2), From(1, 2)}}, tokens), SizeIs(1));
}

TEST_F(PrefixCacheTest, TakesWhatIsThereAndAddsWhatIsNot) {
  const User first = Run(source_, {1, 2, 3, 4});
  const User second = Run(source_, {1, 2, 3, 5});
  EXPECT_EQ(second.pages[0].id(), first.pages[0].id());
  EXPECT_NE(second.pages[1].id(), first.pages[1].id());
  EXPECT_EQ(pool_.used(PageUse::kKv), 3);
  EXPECT_EQ(cache_.num_pages(), 3);
}

TEST_F(PrefixCacheTest, TheFirstOfTwoEqualPagesIsKept) {
  User first = Take(source_, {1, 2, 3, 4});
  User second = Take(source_, {1, 2, 3, 4});
  Extend(first, {1, 2, 3, 4});
  Extend(second, {1, 2, 3, 4});
  EXPECT_EQ(second.ids(), first.ids());
  EXPECT_EQ(pool_.used(PageUse::kKv), 2) << "its own two are free again";
}

TEST_F(PrefixCacheTest, WhatNobodyUsesIsOfferedLastPagesFirst) {
  const Tokens tokens = {1, 2, 3, 4, 5, 6};
  { const User gone = Run(source_, tokens); }
  EXPECT_EQ(cache_.num_idle_pages(), 3);
  EXPECT_EQ(pool_.available(), pool_.total());
  EXPECT_THAT(Found(source_, tokens), SizeIs(3)) << "still there";
  LeaveAvailable(2);
  EXPECT_THAT(Found(source_, tokens), SizeIs(2));
  LeaveAvailable(1);
  EXPECT_THAT(Found(source_, tokens), SizeIs(1));
  LeaveAvailable(0);
  EXPECT_EQ(cache_.num_pages(), 0);
  EXPECT_EQ(cache_.num_tenants(), 0) << "nothing is left of a tenant without pages";
}

TEST_F(PrefixCacheTest, WhatIsUsedStays) {
  const User user = Run(source_, {1, 2, 3, 4});
  { const User longer = Run(source_, {1, 2, 3, 4, 5, 6}); }
  { const User other = Run(source_, {1, 2, 9, 9}); }
  EXPECT_EQ(cache_.num_idle_pages(), 2);
  EXPECT_EQ(pool_.available(), pool_.total() - 2);
  LeaveAvailable(0);
  EXPECT_EQ(Found(source_, Tokens{1, 2, 3, 4, 5, 6}), user.ids());
}

TEST_F(PrefixCacheTest, UseMakesPagesYoung) {
  { const User a = Run(source_, {1, 1}); }
  { const User b = Run(source_, {2, 2}); }
  { const User a = Run(source_, {1, 1}); }
  LeaveAvailable(1);
  EXPECT_THAT(Found(source_, Tokens{2, 2}), IsEmpty());
  EXPECT_THAT(Found(source_, Tokens{1, 1}), SizeIs(1));
}

TEST_F(PrefixCacheTest, PinsMoveAndReleaseOnce) {
  User a = Run(source_, {1, 2});
  PrefixCache::Pin pin = std::move(a.pin);
  EXPECT_EQ(a.pin.num_pages(), 0);  // NOLINT(bugprone-use-after-move): what is tested
  PrefixCache::Pin& same = pin;
  pin = std::move(same);
  EXPECT_EQ(pin.num_pages(), 1);
  EXPECT_EQ(cache_.num_idle_pages(), 0);
  pin = Run(source_, {3, 4}).pin;
  EXPECT_EQ(cache_.num_idle_pages(), 1) << "the overwritten one's page";
  pin.Reset();
  pin.Reset();
  EXPECT_EQ(cache_.num_idle_pages(), 2);
}

// As deep as a context of 100,000 tokens: nothing here may recurse or take quadratic time.
TEST(PrefixCache, HoldsLongSequences) {
  constexpr int32_t kPages = 50'000;
  PagePool pool(kPages);
  PrefixCache cache(pool, {.page_tokens = kPageTokens});
  const Tokens tokens(kPages * kPageTokens, 7);
  for (int round = 0; round < 2; ++round) {
    User user;
    user.pin = cache.Take({.tenant = "tenant", .adapters = {From(1), From(2, kPages)}}, tokens,
                          user.pages);
    EXPECT_EQ(user.pin.num_pages(), round == 0 ? 0 : kPages);
    ASSERT_TRUE(pool.Allocate(kPages - user.pin.num_pages(), PageUse::kKv, user.pages));
    for (auto i = static_cast<size_t>(user.pin.num_pages()); i < kPages; ++i) {
      cache.Extend(user.pin, std::span(tokens).subspan(i * kPageTokens, kPageTokens),
                   user.pages[i]);
    }
  }
  EXPECT_EQ(cache.num_idle_pages(), kPages);
  std::vector<PageRef> pages;
  ASSERT_TRUE(pool.Allocate(kPages / 2, PageUse::kAdapter, pages));
  EXPECT_EQ(cache.num_pages(), kPages / 2);
}

// Random users of few tokens against a plain list of what each page holds.
class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {}

  void Step() {
    switch (Draw(4)) {
      case 0:
        return Arrive();
      case 1:
        return Grow();
      case 2:
        return Leave();
      default:
        return Press();
    }
  }
  void Check() {
    pool_.CheckConservation();
    std::set<PageId> used;
    for (const Live& live : live_) {
      const std::vector<PageId> ids = live.user.ids();
      used.insert(ids.begin(), ids.end());
    }
    std::erase_if(held_, [&](const auto& entry) { return !IsCached(entry.second); });
    ASSERT_EQ(static_cast<int64_t>(held_.size()), cache_.num_pages());
    ASSERT_EQ(cache_.num_pages() - cache_.num_idle_pages(), NumCached(used));
    ASSERT_EQ(pool_.used(PageUse::kKv), cache_.num_pages());
    ASSERT_EQ(pool_.available(), pool_.total() - NumCached(used));
  }
  void End() {
    live_.clear();
    ASSERT_EQ(pool_.available(), pool_.total());
  }

 private:
  // All tokens up to the page's end, and what applies to each of them.
  using Key = std::pair<std::string, std::vector<std::pair<int32_t, AdapterMix>>>;
  // A page, and how to ask for it.
  struct Held {
    PageId page;
    PrefixSource source;
    Tokens tokens;
  };
  struct Live {
    PrefixSource source;
    Tokens tokens;
    User user;
  };

  uint64_t Draw(uint64_t count) { return random_() % count; }

  static Key KeyOf(const PrefixSource& source, const Tokens& tokens, size_t end) {
    Key key{source.tenant, {}};
    for (size_t i = 0; i < end; ++i) {
      AdapterMix mix;
      for (const AdapterFrom& from : source.adapters) {
        if (static_cast<int64_t>(i) >= from.first_token) mix.push_back(from.use);
      }
      key.second.emplace_back(tokens[i], mix);
    }
    return key;
  }

  bool IsCached(const Held& held) const {
    return cache_.Find(held.source, held.tokens).pages.size() == held.tokens.size() / kPageTokens;
  }
  int64_t NumCached(const std::set<PageId>& pages) const {
    return std::count_if(held_.begin(), held_.end(),
                         [&](const auto& entry) { return pages.contains(entry.second.page); });
  }

  // What the cache must find: the longest run of held pages.
  std::vector<PageId> Expected(const PrefixSource& source, const Tokens& tokens) const {
    std::vector<PageId> pages;
    for (size_t end = kPageTokens; end <= tokens.size(); end += kPageTokens) {
      const auto found = held_.find(KeyOf(source, tokens, end));
      if (found == held_.end()) break;
      pages.push_back(found->second.page);
    }
    return pages;
  }

  void Arrive() {
    Live live{.source = {Draw(3) == 0 ? "a" : "b"}, .tokens = Tokens(Draw(9)), .user = {}};
    // One adapter, or two in either order, or none, from the first token on, or from a later one.
    for (const int32_t adapter : {0, 1}) {
      AdapterFrom from = From(adapter, static_cast<int64_t>(Draw(2) * Draw(12)));
      if (Draw(4) == 0) from.use.weight = 0.5f;
      if (Draw(2) == 0) live.source.adapters.push_back(from);
    }
    if (Draw(2) == 0) std::ranges::reverse(live.source.adapters);
    for (int32_t& token : live.tokens) token = static_cast<int32_t>(Draw(2));
    const std::vector<PageId> expected = Expected(live.source, live.tokens);
    ASSERT_EQ(cache_.Find(live.source, live.tokens).pages, expected);
    live.user.pin = cache_.Take(live.source, live.tokens, live.user.pages);
    ASSERT_EQ(live.user.ids(), expected);
    live.tokens.resize(expected.size() * kPageTokens);  // computed so far
    live_.push_back(std::move(live));
  }

  void Grow() {
    if (live_.empty()) return;
    Live& live = live_[Draw(live_.size())];
    if (!pool_.Allocate(1, PageUse::kKv, live.user.pages)) return;
    std::erase_if(held_, [&](const auto& entry) { return !IsCached(entry.second); });
    const Tokens more = {static_cast<int32_t>(Draw(2)), static_cast<int32_t>(Draw(2))};
    live.tokens.insert(live.tokens.end(), more.begin(), more.end());
    const PageId own = live.user.pages.back().id();
    const auto [held, is_new] = held_.emplace(KeyOf(live.source, live.tokens, live.tokens.size()),
                                              Held{own, live.source, live.tokens});
    cache_.Extend(live.user.pin, more, live.user.pages.back());
    ASSERT_EQ(live.user.pages.back().id(), held->second.page);
    ASSERT_EQ(live.user.pin.num_pages(), static_cast<int64_t>(live.user.pages.size()));
  }

  void Leave() {
    if (live_.empty()) return;
    std::swap(live_[Draw(live_.size())], live_.back());
    live_.pop_back();
  }

  // Somebody else wants pages, and gives them back.
  void Press() {
    std::vector<PageRef> pages;
    const auto count = static_cast<int64_t>(Draw(12));
    const bool fits = count <= pool_.available();
    ASSERT_EQ(pool_.Allocate(count, PageUse::kAdapter, pages), fits);
  }

  std::mt19937_64 random_;
  PagePool pool_{24};
  PrefixCache cache_{pool_, {.page_tokens = kPageTokens}};
  std::map<Key, Held> held_;
  std::vector<Live> live_;
};

TEST(PrefixCache, RandomUseAgreesWithAModel) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Simulation simulation(seed);
    for (int step = 0; step < 500 && !testing::Test::HasFailure(); ++step) {
      simulation.Step();
      simulation.Check();
    }
    simulation.End();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace aril

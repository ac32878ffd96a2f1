// States in the prefix cache: with which of them a sequence begins, that nobody else goes on with
// what is cached, and in what order they give way.

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "memory/prefix_cache.h"

namespace aril {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kPageTokens = 2;
constexpr int64_t kStatePages = 3;

using Tokens = std::vector<int32_t>;

// A sequence, as far as the cache is concerned.
struct User {
  PrefixCache::Pin pin;
  std::vector<PageRef> pages, state;  // go before the pin

  std::vector<PageId> ids() const {
    std::vector<PageId> ids;
    for (const PageRef& page : pages) ids.push_back(page.id());
    return ids;
  }
};

class PrefixStates : public ::testing::Test {
 protected:
  // Begins with what is cached.
  User Take(const Tokens& tokens) {
    User user;
    user.pin = cache_.Take(source_, tokens, user.pages);
    return user;
  }
  void TakeState(User& user) { user.state = cache_.TakeState(user.pin, copy_); }
  // Computes and caches the tokens up to the end of so many pages, and the state there.
  void ComputeUpTo(User& user, const Tokens& tokens, int64_t num_pages) {
    ASSERT_TRUE(pool_.Allocate(kStatePages - std::ssize(user.state), PageUse::kKv, user.state));
    ASSERT_TRUE(pool_.Allocate(num_pages - std::ssize(user.pages), PageUse::kKv, user.pages));
    for (int64_t i = user.pin.num_pages(); i < num_pages; ++i) {
      cache_.Extend(user.pin, std::span(tokens).subspan(static_cast<size_t>(i) * 2, 2),
                    user.pages[static_cast<size_t>(i)]);
    }
    for (const PageRef& page : user.state) contents_[page.id()] = next_content_;
    ++next_content_;
    cache_.KeepState(user.pin, user.state, copy_);
  }
  User Run(const Tokens& tokens, const std::vector<int64_t>& stops) {
    User user = Take(tokens);
    TakeState(user);
    for (const int64_t stop : stops) ComputeUpTo(user, tokens, stop);
    return user;
  }
  int ContentOf(const User& user) { return contents_.at(user.state.front().id()); }
  void LeaveAvailable(int64_t count) {
    ASSERT_TRUE(pool_.Allocate(pool_.available() - count, PageUse::kAdapter, taken_));
  }

  const PrefixSource source_{"tenant"};
  const Tokens tokens_ = {1, 1, 2, 2, 3, 3, 4, 4};
  PagePool pool_{30};
  PrefixCache cache_{pool_, {.page_tokens = kPageTokens, .state_pages = kStatePages}};
  std::map<PageId, int> contents_;  // by what the state of the page was computed
  int next_content_ = 0;
  const PrefixCache::Copy copy_ = [this](auto from, auto to) {
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) contents_[to[i].id()] = contents_.at(from[i].id());
  };
  std::vector<PageRef> taken_;
};

TEST_F(PrefixStates, ABeginningEndsWithOne) {
  const User first = Run(tokens_, {1, 3, 4});
  PrefixCache::Beginning found = cache_.Find(source_, tokens_);
  EXPECT_EQ(found.pages, first.ids());
  EXPECT_EQ(found.num_alike, 4);

  found = cache_.Find(source_, Tokens{1, 1, 2, 2, 9, 9});
  EXPECT_THAT(found.pages, SizeIs(1));
  EXPECT_EQ(found.num_alike, 2) << "of which the second has no state";

  found = cache_.Find(source_, Tokens{9, 9});
  EXPECT_THAT(found.pages, IsEmpty());
  EXPECT_EQ(found.num_alike, 0);

  User second = Take({1, 1, 2, 2, 9, 9});
  EXPECT_EQ(second.pin.num_pages(), 1);
  EXPECT_EQ(second.pin.num_alike(), 2);
  TakeState(second);
  EXPECT_EQ(ContentOf(second), 0) << "the first that was kept";
}

TEST_F(PrefixStates, WithoutOneThereIsNoBeginning) {
  User first = Take(tokens_);
  TakeState(first);
  EXPECT_THAT(first.state, IsEmpty());
  ASSERT_TRUE(pool_.Allocate(1, PageUse::kKv, first.pages));
  cache_.Extend(first.pin, Tokens{1, 1}, first.pages[0]);
  const PrefixCache::Beginning found = cache_.Find(source_, tokens_);
  EXPECT_THAT(found.pages, IsEmpty());
  EXPECT_EQ(found.num_alike, 1);
  User second = Take(tokens_);
  TakeState(second);
  EXPECT_THAT(second.pages, IsEmpty());
  EXPECT_THAT(second.state, IsEmpty());
}

// What one does to its state, another does not see.
TEST_F(PrefixStates, EachGoesOnWithACopy) {
  const User first = Run(tokens_, {2});
  User second = Run(tokens_, {}), third = Run(tokens_, {});
  EXPECT_EQ(ContentOf(second), 0);
  contents_[second.state.front().id()] = 77;
  EXPECT_EQ(ContentOf(third), 0);
  EXPECT_EQ(cache_.num_pages(), 2 + kStatePages);
  EXPECT_EQ(cache_.num_idle_pages(), kStatePages) << "whoever uses the pages";
  EXPECT_EQ(pool_.used(PageUse::kKv), 2 + 4 * kStatePages);
}

TEST_F(PrefixStates, TheFirstOfAPageIsKept) {
  User first = Take(tokens_), second = Take(tokens_);
  ComputeUpTo(first, tokens_, 2);
  ComputeUpTo(second, tokens_, 2);
  EXPECT_EQ(cache_.num_pages(), 2 + kStatePages);
  EXPECT_EQ(ContentOf(Run(tokens_, {})), 0);
}

TEST_F(PrefixStates, IsNotKeptWithoutPagesForIt) {
  User user = Take(tokens_);
  LeaveAvailable(kStatePages + 2 + kStatePages - 1);
  ComputeUpTo(user, tokens_, 2);
  EXPECT_EQ(cache_.num_pages(), 2);
  EXPECT_THAT(cache_.Find(source_, tokens_).pages, IsEmpty());
}

// Where there are no pages for a copy, the last one goes on with what was cached.
TEST_F(PrefixStates, TheLastOneTakesItWhereThereIsNoRoom) {
  { const User gone = Run(tokens_, {2}); }
  User first = Take(tokens_), second = Take(tokens_);
  EXPECT_EQ(cache_.num_idle_pages(), 0) << "both keep it";
  LeaveAvailable(kStatePages);
  TakeState(first);
  EXPECT_EQ(pool_.available(), 0);
  TakeState(second);
  EXPECT_EQ(ContentOf(first), 0);
  EXPECT_EQ(ContentOf(second), 0);
  EXPECT_NE(first.state.front().id(), second.state.front().id());
  EXPECT_EQ(cache_.num_pages(), 2);
  EXPECT_THAT(cache_.Find(source_, tokens_).pages, IsEmpty());
}

TEST_F(PrefixStates, WhoTakesACopyGivesItBack) {
  { const User gone = Run(tokens_, {2}); }
  User user = Take(tokens_);
  LeaveAvailable(kStatePages);
  TakeState(user);
  EXPECT_EQ(pool_.available(), kStatePages) << "what was kept is idle again";
  EXPECT_THAT(cache_.Find(source_, tokens_).pages, SizeIs(2));
}

TEST_F(PrefixStates, APinThatGoesAwayKeepsNone) {
  { const User gone = Run(tokens_, {2}); }
  { const User none = Take(tokens_); }
  User kept = Take(tokens_);
  User moved = std::move(kept);
  moved.pages.clear();
  moved.pin.Reset();
  EXPECT_EQ(cache_.num_idle_pages(), 2 + kStatePages);
  EXPECT_EQ(pool_.available(), pool_.total());
}

// Before their pages; and in a conversation, those that later turns have left behind go first.
TEST_F(PrefixStates, GiveWayBeforeTheirPages) {
  { const User gone = Run(tokens_, {1, 3}); }
  EXPECT_EQ(cache_.num_pages(), 3 + 2 * kStatePages);
  EXPECT_EQ(pool_.available(), pool_.total());
  LeaveAvailable(3 + 2 * kStatePages - 1);
  EXPECT_THAT(cache_.Find(source_, Tokens{1, 1, 9, 9}).pages, IsEmpty()) << "the first one's";
  EXPECT_THAT(cache_.Find(source_, tokens_).pages, SizeIs(3));
  LeaveAvailable(3 + kStatePages - 1);
  EXPECT_THAT(cache_.Find(source_, tokens_).pages, IsEmpty()) << "and the last one's";
  EXPECT_EQ(cache_.Find(source_, tokens_).num_alike, 3);
  LeaveAvailable(2);
  EXPECT_EQ(cache_.Find(source_, tokens_).num_alike, 2);
  LeaveAvailable(0);
  EXPECT_EQ(cache_.num_pages(), 0);
  EXPECT_EQ(cache_.num_tenants(), 0);
}

// What others begin with, too, is as young as its last use.
TEST_F(PrefixStates, WhatIsSharedStaysLonger) {
  { const User gone = Run(tokens_, {1, 3}); }
  { const User other = Run({1, 1, 9, 9}, {2}); }
  LeaveAvailable(4 + 3 * kStatePages - 1);
  EXPECT_EQ(cache_.Find(source_, tokens_).num_alike, 3);
  EXPECT_THAT(cache_.Find(source_, tokens_).pages, SizeIs(1));
  EXPECT_THAT(cache_.Find(source_, Tokens{1, 1, 9, 9}).pages, SizeIs(2));
}

TEST_F(PrefixStates, UseMakesThemYoung) {
  { const User a = Run({1, 1}, {1}); }
  { const User b = Run({2, 2}, {1}); }
  { const User a = Run({1, 1}, {}); }
  LeaveAvailable(1 + kStatePages);
  EXPECT_THAT(cache_.Find(source_, Tokens{2, 2}).pages, IsEmpty());
  EXPECT_THAT(cache_.Find(source_, Tokens{1, 1}).pages, SizeIs(1));
}

}  // namespace
}  // namespace aril

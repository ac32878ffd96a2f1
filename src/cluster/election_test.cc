// Elections against a store that behaves as etcd does, and as badly.

#include "cluster/election.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::cluster {
namespace {

class FakeStore final : public LeaseStore {
 public:
  StatusOr<int64_t> Grant(int64_t ttl_seconds) override {
    if (is_down) return Unavailable("down");
    EXPECT_GT(ttl_seconds, 0);
    leases[next_lease] = true;
    return next_lease++;
  }
  StatusOr<bool> KeepAlive(int64_t lease) override {
    if (is_down) return Unavailable("down");
    return leases[lease] || renews_what_is_revoked;
  }
  Status Revoke(int64_t lease) override {
    if (is_down) return Unavailable("down");
    Expire(lease);
    return OkStatus();
  }
  StatusOr<Key> CreateOrGet(const std::string& name, const std::string&, int64_t lease) override {
    if (is_down) return Unavailable("down");
    if (!leases[lease]) return NotFound("requested lease not found");
    const auto [key, is_new] = keys.try_emplace(name, Key{revision + 1, lease});
    if (is_new) ++revision;
    return key->second;
  }
  void Expire(int64_t lease) {
    leases[lease] = false;
    std::erase_if(keys, [&](const auto& key) { return key.second.lease == lease; });
    ++revision;
  }

  bool is_down = false;
  bool renews_what_is_revoked = false;
  int64_t next_lease = 100;
  int64_t revision = 10;
  std::map<int64_t, bool> leases;
  std::map<std::string, Key> keys;
};

using Leads = std::optional<Epoch>;

TEST(Election, TheFirstLeadsUntilItsLeaseEnds) {
  FakeStore store;
  Election a({.key = "leader", .value = "a"}, store);
  Election b({.key = "leader", .value = "b"}, store);
  EXPECT_EQ(*a.Round(), Leads(Epoch(11)));
  EXPECT_EQ(*b.Round(), std::nullopt);
  EXPECT_EQ(*a.Round(), Leads(Epoch(11))) << "it goes on under the same epoch";
  store.Expire(100);
  EXPECT_EQ(*b.Round(), Leads(Epoch(13))) << "higher than any before";
  EXPECT_EQ(*a.Round(), std::nullopt) << "it has been paused, and finds another one";
  EXPECT_EQ(*b.Round(), Leads(Epoch(13)));
}

TEST(Election, ALeaseThatEndsUnseenMeansAnewEpoch) {
  FakeStore store;
  Election a({.key = "leader", .value = "a"}, store);
  EXPECT_EQ(*a.Round(), Leads(Epoch(11)));
  store.Expire(100);
  EXPECT_EQ(*a.Round(), Leads(Epoch(13))) << "nobody else led; but who knows";
}

TEST(Election, AnOutageChangesNothing) {
  FakeStore store;
  Election a({.key = "leader", .value = "a"}, store);
  EXPECT_EQ(*a.Round(), Leads(Epoch(11)));
  store.is_down = true;
  EXPECT_EQ(a.Round().status().code(), StatusCode::kUnavailable);
  store.is_down = false;
  EXPECT_EQ(*a.Round(), Leads(Epoch(11)));
}

TEST(Election, WhoResignsNeedNotBeWaitedFor) {
  FakeStore store;
  Election a({.key = "leader", .value = "a"}, store);
  Election b({.key = "leader", .value = "b"}, store);
  EXPECT_EQ(*a.Round(), Leads(Epoch(11)));
  EXPECT_EQ(*b.Round(), std::nullopt);
  a.Resign();
  a.Resign();
  EXPECT_EQ(*b.Round(), Leads(Epoch(13)));
}

TEST(Election, ALeaseThatEndsWithinARoundIsReplacedInTheNext) {
  FakeStore store;
  Election a({.key = "leader", .value = "a"}, store);
  EXPECT_EQ(*a.Round(), Leads(Epoch(11)));
  store.renews_what_is_revoked = true;
  store.Expire(100);
  EXPECT_EQ(a.Round().status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*a.Round(), Leads(Epoch(13)));
}

}  // namespace
}  // namespace aril::cluster

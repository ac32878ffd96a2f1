// etcd's keys without etcd, for tests.

#ifndef ARIL_CLUSTER_FAKE_KEY_VALUE_STORE_H_
#define ARIL_CLUSTER_FAKE_KEY_VALUE_STORE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/key_value_store.h"

namespace aril::cluster {

class FakeKeyValueStore final : public KeyValueStore {
 public:
  StatusOr<Listing> List(const std::string& prefix, int64_t after) override {
    if (is_down) return Unavailable("down");
    ++num_listings;
    Listing listing = {.revision = revision, .items = {}};
    for (const auto& [key, item] : items) {
      if (key.starts_with(prefix) && item.mod_revision > after) listing.items.push_back(item);
    }
    num_listed += listing.items.size();
    return listing;
  }

  StatusOr<std::optional<int64_t>> Commit(const std::vector<Condition>& conditions,
                                          const std::vector<Write>& writes) override {
    if (is_down) return Unavailable("down");
    if (before_commit) std::exchange(before_commit, nullptr)();
    for (const Condition& condition : conditions) {
      const auto found = items.find(condition.key);
      const int64_t mod = found == items.end() ? 0 : found->second.mod_revision;
      if (mod != condition.mod_revision) return std::optional<int64_t>();
    }
    ++revision;
    for (const Write& write : writes) {
      if (!write.value) {
        items.erase(write.key);
        continue;
      }
      const int64_t created =
          items.contains(write.key) ? items[write.key].create_revision : revision;
      items[write.key] = {write.key, *write.value, created, revision};
    }
    if (std::exchange(loses_answer, false)) return std::optional<int64_t>();
    return std::optional(revision);
  }

  bool is_down = false;
  // The next commit takes place, and says that it has not: a member's answer was lost, and another
  // one was asked.
  bool loses_answer = false;
  std::function<void()> before_commit;  // once: what somebody else does just before
  int64_t revision = 10;
  std::map<std::string, Item> items;
  size_t num_listings = 0, num_listed = 0;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_FAKE_KEY_VALUE_STORE_H_

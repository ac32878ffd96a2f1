// What processes of a cluster share, as etcd keeps it: keys, values, revisions.

#ifndef ARIL_CLUSTER_KEY_VALUE_STORE_H_
#define ARIL_CLUSTER_KEY_VALUE_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace aril::cluster {

// Each change of anything makes a new revision. Each call is one round trip, or a few; Unavailable
// when no member answers: a Commit may have taken place, then.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  struct Item {
    std::string key;
    std::string value;
    int64_t create_revision = 0;  // of its present life
    int64_t mod_revision = 0;
  };
  struct Listing {
    int64_t revision = 0;     // at which all of it is true
    std::vector<Item> items;  // by key
  };
  // The keys that begin with `prefix` and have changed after revision `after`; 0: all. What is
  // deleted is in no listing.
  virtual StatusOr<Listing> List(const std::string& prefix, int64_t after) = 0;

  struct Condition {
    std::string key;
    int64_t mod_revision = 0;  // 0: it is not there
  };
  struct Write {
    std::string key;
    std::optional<std::string> value;  // nullopt: deletes it
  };
  // All writes, if all conditions hold: the new revision; else nullopt, and nothing has changed. No
  // key is written twice.
  virtual StatusOr<std::optional<int64_t>> Commit(const std::vector<Condition>& conditions,
                                                  const std::vector<Write>& writes) = 0;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_KEY_VALUE_STORE_H_

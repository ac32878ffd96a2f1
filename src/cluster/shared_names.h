// The names of a cluster and their generations, which its gateways share in etcd.
//
// Beneath the prefix:
//   base                      the digest of the base model
//   generations/DIGEST        what a process needs to get an adapter's files (SharedGeneration);
//                             its create revision makes the adapter's id
//   names/LENGTH/OWNER/NAME   a name (RegisteredAdapter); LENGTH is the owner's, as both may have
//                             slashes. Empty: it has been removed, which others must get to see
// The values are JSON. A change is one transaction, on the condition that nobody else has changed
// what it rests on since it was read. What others do is read again and again (no watch): what has
// changed since the last time, and now and then everything.

#ifndef ARIL_CLUSTER_SHARED_NAMES_H_
#define ARIL_CLUSTER_SHARED_NAMES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/status.h"
#include "catalog/name_store.h"
#include "cluster/generation_uses.h"
#include "cluster/key_value_store.h"

namespace aril::cluster {

// One version of an adapter, as every process of the cluster must know it.
struct SharedGeneration {
  std::string digest;
  std::string source;                           // where who has registered it last got it from
  int64_t rank = 0;                             // the largest of a module
  int64_t bytes = 0;                            // of its weights' file
  int64_t pool_bytes = 0;                       // of its weights in a runner's pool
  std::vector<int32_t> invocation_tokens = {};  // LoraSpec's
  Json chat_template = {};  // how its folder says that chats are written, or null
  Json tokens = {};         // what it says of tokens (TokenizerChanges), or null
  int64_t vocab_size = 0;   // LoraSpec's; 0: the base model's, by a gateway of before
};

// Thread-safe.
class SharedNames final : public NameStore {
 public:
  struct Options {
    std::string prefix;       // ends in a slash
    std::string base_digest;  // of the base model
  };
  // The longest value that is written.
  static constexpr size_t kMaxValueBytes = 256 << 10;

  // `store` and `clock` must outlive it. FailedPrecondition if the prefix is of another base model;
  // Unavailable if etcd does not answer.
  static StatusOr<std::unique_ptr<SharedNames>> Open(Options options, KeyValueStore& store,
                                                     const Clock& clock);

  bool Has(const std::string& digest) const override { return uses_.Has(digest); }
  // Also Aborted if a generation of the row's last is not registered (any more), and
  // ResourceExhausted if the row is too long.
  StatusOr<std::vector<std::string>> Put(const RegisteredAdapter& row) override;
  StatusOr<std::vector<std::string>> Remove(const std::string& owner,
                                            const std::string& name) override;
  StatusOr<NameChanges> Poll() override;

  // Writes what all processes have to know before a name may stand for it, and returns the
  // adapter's id, which is the same for everybody.
  StatusOr<AdapterId> Register(const SharedGeneration& generation);
  // Takes back a registration that no name holds. That it fails costs a key.
  void Forget(const std::string& digest);
  // Where the names that a tenant may use got a generation from. Cheap.
  std::vector<std::string> SourcesFor(const std::string& digest, const std::string& tenant,
                                      size_t max) const {
    return uses_.SourcesFor(digest, tenant, max);
  }
  // As it was registered, with its id. nullopt if it is not registered, or beyond all ids.
  std::optional<std::pair<AdapterId, SharedGeneration>> Find(const std::string& digest) const;

 private:
  struct Name {
    RegisteredAdapter row;
    int64_t mod_revision = 0;
  };
  struct Known {
    SharedGeneration generation;
    int64_t create_revision = 0;
    int64_t mod_revision = 0;
    // Somebody has written it since the last Poll: perhaps with a name that is not known here yet.
    bool is_ahead = false;
  };

  SharedNames(Options options, KeyValueStore& store, const Clock& clock)
      : options_(std::move(options)), store_(store), clock_(clock) {}

  Status CheckBase();
  std::string GenerationKey(const std::string& digest) const;
  std::string NameKey(const std::string& owner, const std::string& name) const;
  // Reads one key again after a conflict; mod revision 0: it is not there.
  StatusOr<KeyValueStore::Item> Reread(const std::string& key);
  StatusOr<std::vector<std::string>> Write(const std::string& key, const std::string& value,
                                           const RegisteredAdapter* row);
  struct WriteResult {
    std::optional<int64_t> revision;  // nullopt: it is not at `mod` any more
    bool is_there = true;             // then: the key is
  };
  // Writes a name that is at this mod revision, 0: not there. Afterwards what is known of its
  // generations is true.
  StatusOr<WriteResult> TryWrite(const std::string& key, int64_t mod, const std::string& value,
                                 const RegisteredAdapter* row);
  // What the snapshot loses and gains; returns the generations that nobody holds any more.
  std::vector<std::string> Replace(const std::string& key, const RegisteredAdapter* row,
                                   int64_t mod_revision);
  void TakeGeneration(const KeyValueStore::Item& item);
  Status RereadGeneration(const std::string& digest);
  void ForgetLocked(const std::string& digest);
  void TakeName(const KeyValueStore::Item& item, NameChanges* changes);
  void RemoveMarks();

  const Options options_;
  KeyValueStore& store_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  int64_t revision_ = 0;  // up to which the snapshot is true
  TimePoint last_listing_;
  std::map<std::string, Name> names_;  // by key
  GenerationUses uses_;                // by names_
  std::unordered_map<std::string, Known> generations_;
  std::vector<std::string> to_forget_;  // when it is known which names there are
  // Keys of names that have been removed: their mod revision, and when that was seen.
  std::map<std::string, std::pair<int64_t, TimePoint>> marks_;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_SHARED_NAMES_H_

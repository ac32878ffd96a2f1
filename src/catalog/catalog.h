// The names that users put in `model`, and what they stand for.

#ifndef ARIL_CATALOG_CATALOG_H_
#define ARIL_CATALOG_CATALOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "catalog/name_store.h"

namespace aril {

// The tenant of whoever has no other: the operator, who also owns what everybody may use.
inline constexpr const char* kDefaultTenant = "default";

// One immutable version of an adapter, as a runner has it. Whoever uses it holds it; when nobody
// does any more, the runner is told.
class Generation {
 public:
  struct Description {
    AdapterId adapter;   // at the runner
    std::string digest;  // of its files (catalog/generation_store.h); empty if unknown
    int64_t rank = 0;    // the largest of a module
    int64_t bytes = 0;   // of its weights' file
  };
  // Where its weights are.
  enum class Residence { kUnknown, kDisk, kHost, kPool };
  // Keeps its files open.
  using Opened = std::shared_ptr<const void>;
  // Each may be empty.
  struct Hooks {
    // Makes it ready for a request; called before each, on any thread but the server's.
    std::function<StatusOr<Opened>()> prepare;
    // The same without reading files: nullptr if that would be needed. Cheap; any thread.
    std::function<Opened()> find_prepared;
    // Runs once, on whatever thread lets go last.
    std::function<void()> release;
    // Cheap; any thread.
    std::function<Residence()> residence;
    // Keeps it where requests use it at once, while what this returns exists. Any thread.
    std::function<StatusOr<std::shared_ptr<const void>>(const std::string& tenant)> pin;
  };
  explicit Generation(Description description, Hooks hooks = {})
      : description_(std::move(description)), hooks_(std::move(hooks)) {}
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation() {
    if (hooks_.release) hooks_.release();
  }

  const Description& operator*() const { return description_; }
  const Description* operator->() const { return &description_; }

  // Makes it ready for the requests that come while what this returns exists; may read files.
  // Thread-safe.
  StatusOr<Opened> Prepare() const { return hooks_.prepare ? hooks_.prepare() : Nothing(); }
  // As Prepare, but without reading files: nullptr if they would have to be. Thread-safe.
  Opened FindPrepared() const { return hooks_.find_prepared ? hooks_.find_prepared() : Nothing(); }
  // Prepares it. FailedPrecondition if there is no room for that, or none of the tenant's.
  StatusOr<std::shared_ptr<const void>> Pin(const std::string& tenant) const {
    RETURN_IF_ERROR(Prepare().status());
    if (!hooks_.pin) return FailedPrecondition("this generation cannot be pinned");
    return hooks_.pin(tenant);
  }
  Residence residence() const {
    return hooks_.residence ? hooks_.residence() : Residence::kUnknown;
  }

 private:
  // What keeps nothing open, where there is nothing to open.
  static Opened Nothing() { return std::make_shared<char>(); }

  const Description description_;
  const Hooks hooks_;
};

// How a name has been used since the process began. Thread-safe.
class NameUsage {
 public:
  struct Numbers {
    int64_t requests = 0;
    int64_t last_used_unix = 0;  // 0: never
    std::string error;           // why the last request could not use it; empty if it could
  };
  void OnRequest(int64_t now_unix, const std::string& error) {
    const std::lock_guard lock(mutex_);
    ++numbers_.requests;
    numbers_.last_used_unix = now_unix;
    numbers_.error = error;
  }
  Numbers Read() const {
    const std::lock_guard lock(mutex_);
    return numbers_;
  }

 private:
  mutable std::mutex mutex_;
  Numbers numbers_;
};

// The adapter of what is divided among several: no request may use it.
inline constexpr AdapterId kNoAdapter{-2};

struct CatalogEntry;
// One of those that a name divides its requests among (catalog/split.h).
struct CatalogShare {
  SplitShare share;
  std::shared_ptr<const CatalogEntry> entry;  // what its requests use, under the same name
};

// What a name stands for: a generation of an adapter, or the base model. Immutable but for its
// usage.
struct CatalogEntry {
  std::string name;                              // the alias
  std::string parent;                            // the base model's name; empty for the base model
  std::string root;                              // where it came from
  std::shared_ptr<const Generation> generation;  // null for the base model
  std::string owner;                             // the tenant whose it is; empty: everybody's
  int64_t expires_unix = 0;                      // from then on it is gone; 0: never
  bool is_given = false;                         // by the command line, which a restart reads again
  // Whether it is to stay where requests use it at once, and what keeps it there; or why that
  // cannot be (after a restart with a smaller pool).
  bool is_pinned = false;
  std::shared_ptr<const void> pin = nullptr;
  std::string pin_error = {};
  // Empty, or among which generations its requests are divided; `generation` is all of them then.
  std::vector<CatalogShare> shares = {};
  // What an adapter's name has stood for, oldest first, at most Catalog::kMaxHistory; the last is
  // what it stands for. Put fills it in.
  std::vector<PastGeneration> history = {};
  std::shared_ptr<NameUsage> usage = std::make_shared<NameUsage>();  // goes on when the name moves

  bool is_split() const { return !shares.empty(); }
  AdapterId adapter() const { return generation == nullptr ? kBaseModel : (*generation)->adapter; }
};

// Who holds an entry holds its generation.
using CatalogEntryPtr = std::shared_ptr<const CatalogEntry>;

std::vector<SplitShare> SharesOf(const CatalogEntry& entry);

// Whether the name has stood for a generation, alone or as one of several, and remembers it.
bool HasStoodFor(const CatalogEntry& entry, const std::string& digest);

// True for 1–128 characters of [A-Za-z0-9._/:@-], starting with a letter or digit: names never
// become paths, and commas would break metrics.
bool IsValidName(std::string_view name);

// Thread-safe. A name moves from one generation to another at once: who resolves it gets the old or
// the new one.
//
// A tenant's names are its own: others neither see them nor are kept from using the same. What has
// no owner everybody sees, and no tenant may make a name of its own that hides it; the default
// tenant may change it.
class Catalog {
 public:
  // What Put takes at most: each adapter is a mapped file, of which Linux allows a process 65,530.
  static constexpr int64_t kMaxAdapters = 20'000;
  static constexpr size_t kMaxHistory = 10;

  struct Options {
    const Clock* clock = nullptr;  // outlives the catalog; null: nothing may expire
    // Outlives the catalog; null: changes are forgotten when the process ends. With it, a change is
    // there for good before anybody sees it.
    NameStore* registry = nullptr;
    // What a name that another process has written stands for (catalog/restore_entry.h). Only where
    // other processes have the same registry.
    std::function<StatusOr<CatalogEntry>(const RegisteredAdapter& row)> restore = nullptr;
    // Told of generations that the registry has let go.
    std::function<void(const std::string& digest)> on_forgotten = nullptr;
  };
  // InvalidArgument on a duplicate or invalid name, an adapter without a parent, or a base model
  // with one. Several names may stand for one adapter, and for the base model. What the registry
  // has (not is_given) comes before what the command line gave; nothing is written to it.
  static StatusOr<std::shared_ptr<Catalog>> Create(std::vector<CatalogEntry> entries,
                                                   Options options);

  // The entry of that name that `tenant` may use, or null.
  CatalogEntryPtr Resolve(std::string_view tenant, std::string_view name) const;
  // All entries that `tenant` may use, base model first, then by name.
  std::vector<CatalogEntryPtr> List(std::string_view tenant) const;
  // The name of an adapter or the base model (of several, one), for metrics; also of one that has
  // lost its names and is still used. Empty if unknown.
  std::string NameOf(AdapterId adapter) const;
  int64_t num_adapters() const;  // names of adapters
  // The first name of the base model that Create was given: every adapter's parent. Empty without
  // one.
  const std::string& base_name() const { return base_name_; }
  bool is_durable() const { return options_.registry != nullptr; }

  // The digest that a name must stand for when it is changed; empty: it must be free. nullopt:
  // whatever it stands for.
  using Expected = std::optional<std::string>;
  // Whether `tenant` may change `name` now: InvalidArgument for what is no name; AlreadyExists for
  // the base model's, somebody else's or, where it must be free, one that is taken;
  // Aborted for another generation than expected.
  Status CheckChange(std::string_view tenant, const std::string& name,
                     const Expected& expected) const;
  // Gives an adapter a name of `tenant`'s, or moves one. The errors of CheckChange; also
  // ResourceExhausted beyond kMaxAdapters, and those of the registry: then nothing has changed.
  // Returns the entry as others see it now. Takes as long as writing to disk.
  StatusOr<CatalogEntryPtr> Put(std::string_view tenant, CatalogEntry entry,
                                const Expected& expected);
  // Removes what has expired, which every change does as well. The errors of the registry.
  Status Sweep();
  // Takes over what other processes have changed, which every change does first. The errors of the
  // registry; what cannot be restored is not served, and the log says why.
  Status Sync();
  // Lets go of what was stored for an entry that is not going to be put.
  void Discard(const CatalogEntry& entry);
  // NotFound if there is no such name; else as Put. FailedPrecondition for a name that the command
  // line gave, where changes are to survive: it would be back after a restart.
  Status Remove(std::string_view tenant, const std::string& name, const Expected& expected);

 private:
  struct Key {
    std::string owner;
    std::string name;
    auto operator<=>(const Key&) const = default;
  };
  explicit Catalog(Options options) : options_(std::move(options)) {}

  bool IsExpired(const CatalogEntry& entry) const;
  // mutex_ is held, or nobody else is there yet, for all of these.
  CatalogEntryPtr Find(const Key& key) const;  // null also if it has expired
  Key KeyFor(std::string_view tenant, const std::string& name) const;
  void Insert(CatalogEntryPtr entry, const CatalogEntryPtr& replaced = nullptr);
  void Index(const CatalogEntryPtr& entry, const CatalogEntryPtr& replaced);
  CatalogEntryPtr Take(const Key& key);
  void ForgetUnused();

  // changes_mutex_ is held.
  Status SyncLocked();
  void TakeOver(const RegisteredAdapter& row);
  // The same. Each appends what the registry has let go.
  StatusOr<CatalogEntryPtr> PutLocked(std::string_view tenant, CatalogEntry entry,
                                      const Expected& expected,
                                      std::vector<std::string>* forgotten);
  Status RemoveLocked(std::string_view tenant, const std::string& name, const Expected& expected,
                      CatalogEntryPtr* removed, std::vector<std::string>* forgotten);
  Status RemoveKey(const Key& key, std::vector<std::string>* forgotten);
  Status RemoveExpired(std::vector<std::string>* forgotten);
  bool IsUnused(const std::string& digest) const;  // by any name that is on disk
  void TellForgotten(const std::vector<std::string>& digests) const;

  const Options options_;
  std::string base_name_;  // does not change after Create

  std::mutex changes_mutex_;  // one change at a time; taken before mutex_
  mutable std::mutex mutex_;
  std::map<std::string, CatalogEntryPtr, std::less<>> bases_;
  std::map<Key, CatalogEntryPtr> adapters_;
  std::set<std::pair<int64_t, Key>> expiries_;  // of adapters_
  // An entry of each adapter that has a name, or that somebody still uses.
  std::unordered_map<AdapterId, std::weak_ptr<const CatalogEntry>> by_adapter_;
};

}  // namespace aril

#endif  // ARIL_CATALOG_CATALOG_H_

// The names that users put in `model`, and what they stand for.

#ifndef ARIL_CATALOG_CATALOG_H_
#define ARIL_CATALOG_CATALOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace aril {

// One immutable version of an adapter, as a runner has it. Whoever uses it holds it; when nobody
// does any more, the runner is told.
class Generation {
 public:
  struct Description {
    AdapterId adapter;   // at the runner
    std::string digest;  // of its files (adapters/adapter.h); empty if unknown
    std::string source;  // where it came from: a path as the operator gave it
    int64_t rank = 0;    // the largest of a module
    int64_t bytes = 0;   // in the pool
  };
  // `release` (may be empty) runs once, on whatever thread lets go last.
  explicit Generation(Description description, std::function<void()> release = nullptr)
      : description_(std::move(description)), release_(std::move(release)) {}
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation() {
    if (release_) release_();
  }

  const Description& operator*() const { return description_; }
  const Description* operator->() const { return &description_; }

 private:
  const Description description_;
  const std::function<void()> release_;
};

// What a name stands for: a generation of an adapter, or the base model. Immutable.
struct CatalogEntry {
  std::string name;                              // the alias
  std::string parent;                            // the base model's name; empty for the base model
  std::string root;                              // where it came from
  std::shared_ptr<const Generation> generation;  // null for the base model

  AdapterId adapter() const { return generation == nullptr ? kBaseModel : (*generation)->adapter; }
};

// Who holds an entry holds its generation.
using CatalogEntryPtr = std::shared_ptr<const CatalogEntry>;

// True for 1–128 characters of [A-Za-z0-9._/:@-], starting with a letter or digit: names never
// become paths, and commas would break metrics.
bool IsValidName(std::string_view name);

// Thread-safe. A name moves from one generation to another at once: who resolves it gets the old or
// the new one.
class Catalog {
 public:
  // InvalidArgument on a duplicate or invalid name, an adapter without a parent, or a base model
  // with one. Several names may stand for one adapter, and for the base model.
  static StatusOr<std::shared_ptr<Catalog>> Create(std::vector<CatalogEntry> entries);

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

  // What Add takes at most: each adapter is a mapped file, of which Linux allows a process 65,530.
  static constexpr int64_t kMaxAdapters = 20'000;

  // Whether Add may replace what the name stands for.
  enum class IfTaken { kRefuse, kReplace };
  // Adds an adapter. InvalidArgument as for Create, and for a name of the base model; AlreadyExists
  // if it is taken and may not be; ResourceExhausted beyond kMaxAdapters.
  Status Add(CatalogEntry entry, IfTaken if_taken);
  // NotFound if there is no such name; InvalidArgument if it is the base model's.
  Status Remove(std::string_view name);

 private:
  Catalog() = default;
  // Both: mutex_ is held, or nobody else is there yet.
  void Insert(CatalogEntry entry);
  void ForgetUnused();

  std::string base_name_;  // does not change after Create

  mutable std::mutex mutex_;
  // Base models, and adapters.
  std::map<std::string, CatalogEntryPtr, std::less<>> bases_;
  std::map<std::string, CatalogEntryPtr, std::less<>> adapters_;
  // An entry of each adapter that has a name, or that somebody still uses.
  std::unordered_map<AdapterId, std::weak_ptr<const CatalogEntry>> by_adapter_;
};

}  // namespace aril

#endif  // ARIL_CATALOG_CATALOG_H_

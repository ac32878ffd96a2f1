#include "catalog/catalog.h"

#include <algorithm>
#include <functional>

#include "base/json.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kMaxNameBytes = 128;
// Of a change that others are ahead of.
constexpr int kMaxTries = 5;

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool IsNameCharacter(char c) {
  return IsAlphanumeric(c) || std::string_view("._/:@-").find(c) != std::string_view::npos;
}

Status AlreadyExists(const std::string& message) {
  return MakeStatus(StatusCode::kAlreadyExists, message);
}

Status CheckName(const std::string& name) {
  if (IsValidName(name)) return OkStatus();
  return InvalidArgument(StrCat("model name ", JsonQuote(name.substr(0, kMaxNameBytes)),
                                " must be 1 to ", kMaxNameBytes, " characters of letters, digits ",
                                "and . _ / : @ -, starting with a letter or digit"));
}

Status CheckEntry(const CatalogEntry& entry) {
  RETURN_IF_ERROR(CheckName(entry.name));
  if ((entry.generation != nullptr) == entry.parent.empty()) {
    return InvalidArgument(StrCat("model ", JsonQuote(entry.name),
                                  entry.parent.empty() ? " is an adapter without a parent"
                                                       : " is a base model with a parent"));
  }
  return OkStatus();
}

// Appends what a name stands for now. The same files may come from another source.
void Remember(const Clock* clock, CatalogEntry* entry) {
  const std::string& digest = (*entry->generation)->digest;
  std::vector<PastGeneration>& history = entry->history;
  if (!history.empty() && history.back().digest == digest) {
    history.back().source = entry->root;
    return;
  }
  if (history.size() == Catalog::kMaxHistory) history.erase(history.begin());
  history.push_back({.digest = digest,
                     .since_unix = clock == nullptr ? 0 : clock->UnixSeconds(),
                     .split = SharesOf(*entry),
                     .source = entry->root});
}

// The same share, counted on where one of `current` has its generation.
CatalogShare WithUsage(const CatalogShare& share, const CatalogEntry* current) {
  CatalogEntry entry = *share.entry;
  if (current != nullptr) {
    for (const CatalogShare& former : current->shares) {
      if (former.share.digest == share.share.digest) entry.usage = former.entry->usage;
    }
  }
  return {share.share, std::make_shared<const CatalogEntry>(std::move(entry))};
}

// Whether `known` is that entry, or what a share of it uses. Compares without taking a reference,
// which might be the last one.
bool IsPartOf(const CatalogEntryPtr& entry, const std::weak_ptr<const CatalogEntry>& known) {
  const auto is_it = [&](const CatalogEntryPtr& part) {
    return !known.owner_before(part) && !part.owner_before(known);
  };
  return is_it(entry) || std::ranges::any_of(entry->shares, is_it, &CatalogShare::entry);
}

std::string GivenByCommandLine(const std::string& name) {
  return StrCat(JsonQuote(name), " is given on the command line (--adapters, --lora-modules or ",
                "--demo) and would be back after a restart; leave it out there");
}

RegisteredAdapter RegistryRow(const CatalogEntry& entry) {
  return {.owner = entry.owner,
          .name = entry.name,
          .expires_unix = entry.expires_unix,
          .is_pinned = entry.is_pinned,
          .history = entry.history,
          .rank = (*entry.generation)->rank,
          .bytes = (*entry.generation)->bytes};
}

}  // namespace

std::vector<SplitShare> SharesOf(const CatalogEntry& entry) {
  std::vector<SplitShare> shares;
  for (const CatalogShare& share : entry.shares) shares.push_back(share.share);
  return shares;
}

bool HasStoodFor(const CatalogEntry& entry, const std::string& digest) {
  const auto is_it = [&](const auto& past) { return past.digest == digest; };
  return std::ranges::any_of(entry.history, [&](const PastGeneration& past) {
    return is_it(past) || std::ranges::any_of(past.split, is_it);
  });
}

bool IsValidName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && IsAlphanumeric(name.front()) &&
         std::ranges::all_of(name, IsNameCharacter);
}

StatusOr<std::shared_ptr<Catalog>> Catalog::Create(std::vector<CatalogEntry> entries,
                                                   Options options) {
  std::shared_ptr<Catalog> catalog(new Catalog(std::move(options)));
  std::ranges::stable_sort(entries, std::greater(), &CatalogEntry::is_given);
  for (CatalogEntry& entry : entries) {
    RETURN_IF_ERROR(CheckEntry(entry));
    const CatalogEntryPtr known = catalog->Take({entry.owner, entry.name});
    const bool is_registered = entry.generation != nullptr && !entry.is_given;
    const bool is_moved = known != nullptr && known->is_given && is_registered;
    const bool is_hidden = catalog->bases_.contains(entry.name);
    if (is_hidden && is_registered) {
      LogWarning(StrCat("the adapter ", entry.name, " of tenant ", JsonQuote(entry.owner),
                        " is hidden by the base model, which has its name"));
    }
    if ((known != nullptr && !is_moved) || (is_hidden && !is_registered)) {
      return InvalidArgument("model name " + JsonQuote(entry.name) +
                             " is given twice; names must differ");
    }
    if (entry.generation == nullptr && catalog->base_name_.empty()) {
      catalog->base_name_ = entry.name;
    }
    entry.is_given |= is_moved;
    catalog->Insert(std::make_shared<const CatalogEntry>(std::move(entry)), known);
  }
  return catalog;
}

bool Catalog::IsExpired(const CatalogEntry& entry) const {
  return entry.expires_unix != 0 && options_.clock != nullptr &&
         options_.clock->UnixSeconds() >= entry.expires_unix;
}

CatalogEntryPtr Catalog::Find(const Key& key) const {
  const auto found = adapters_.find(key);
  return found == adapters_.end() || IsExpired(*found->second) ? nullptr : found->second;
}

Catalog::Key Catalog::KeyFor(std::string_view tenant, const std::string& name) const {
  const Key own = {std::string(tenant), name};
  const Key everybodys = {"", name};
  const bool is_everybodys =
      tenant == kDefaultTenant && Find(own) == nullptr && Find(everybodys) != nullptr;
  return is_everybodys ? everybodys : own;
}

void Catalog::Index(const CatalogEntryPtr& entry, const CatalogEntryPtr& replaced) {
  for (const CatalogShare& share : entry->shares) Index(share.entry, replaced);
  if (entry->is_split()) return;
  auto& known = by_adapter_[entry->adapter()];
  if (known.expired() || (replaced != nullptr && IsPartOf(replaced, known))) known = entry;
}

void Catalog::Insert(CatalogEntryPtr entry, const CatalogEntryPtr& replaced) {
  Index(entry, replaced);
  if (entry->generation == nullptr) {
    bases_[entry->name] = std::move(entry);
    return;
  }
  const Key key = {entry->owner, entry->name};
  if (entry->expires_unix != 0) expiries_.emplace(entry->expires_unix, key);
  adapters_[key] = std::move(entry);
  ForgetUnused();
}

CatalogEntryPtr Catalog::Take(const Key& key) {
  const auto found = adapters_.find(key);
  if (found == adapters_.end()) return nullptr;
  CatalogEntryPtr entry = std::move(found->second);
  adapters_.erase(found);
  expiries_.erase({entry->expires_unix, key});
  return entry;
}

void Catalog::ForgetUnused() {
  constexpr size_t kSlack = 64;
  if (by_adapter_.size() < 2 * adapters_.size() + kSlack) return;
  std::erase_if(by_adapter_, [](const auto& known) { return known.second.expired(); });
}

CatalogEntryPtr Catalog::Resolve(std::string_view tenant, std::string_view name) const {
  const std::lock_guard lock(mutex_);
  if (const auto base = bases_.find(name); base != bases_.end()) return base->second;
  if (CatalogEntryPtr own = Find({std::string(tenant), std::string(name)})) return own;
  return Find({"", std::string(name)});
}

std::vector<CatalogEntryPtr> Catalog::List(std::string_view tenant) const {
  std::vector<CatalogEntryPtr> result;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : bases_) result.push_back(entry);
  const auto first_adapter = static_cast<std::ptrdiff_t>(result.size());
  const auto append = [&](const std::string& owner) {
    for (auto it = adapters_.lower_bound({owner, ""});
         it != adapters_.end() && it->first.owner == owner; ++it) {
      if (!IsExpired(*it->second)) result.push_back(it->second);
    }
  };
  append(std::string(tenant));
  const auto first_of_all = static_cast<std::ptrdiff_t>(result.size());
  append("");
  const auto by_name = [](const auto& a, const auto& b) { return a->name < b->name; };
  std::inplace_merge(result.begin() + first_adapter, result.begin() + first_of_all, result.end(),
                     by_name);
  // The tenant's own stands first of two.
  const auto same_name = [](const auto& a, const auto& b) { return a->name == b->name; };
  result.erase(std::unique(result.begin() + first_adapter, result.end(), same_name), result.end());
  return result;
}

std::string Catalog::NameOf(AdapterId adapter) const {
  CatalogEntryPtr entry;  // if this is the last one, it is let go after the lock is
  const std::lock_guard lock(mutex_);
  const auto known = by_adapter_.find(adapter);
  if (known == by_adapter_.end()) return "";
  entry = known->second.lock();
  if (entry != nullptr) return entry->name;
  // That name is gone; there may be another one.
  const auto other = std::ranges::find_if(adapters_, [&](const auto& named) {
    const auto is_it = [&](const CatalogShare& share) { return share.entry->adapter() == adapter; };
    return named.second->adapter() == adapter || std::ranges::any_of(named.second->shares, is_it);
  });
  return other == adapters_.end() ? "" : other->first.name;
}

int64_t Catalog::num_adapters() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(adapters_.size());
}

Status Catalog::CheckChange(std::string_view tenant, const std::string& name,
                            const Expected& expected) const {
  RETURN_IF_ERROR(CheckName(name));
  const std::string quoted = JsonQuote(name);
  const std::lock_guard lock(mutex_);
  if (bases_.contains(name)) return AlreadyExists(quoted + " is a name of the base model");
  // A name that a tenant had before the command line gave it to all stays the tenant's.
  const bool has_own = Find({std::string(tenant), name}) != nullptr;
  if (tenant != kDefaultTenant && !has_own && Find({"", name}) != nullptr) {
    return AlreadyExists(quoted + " is an adapter that the operator gives to all tenants");
  }
  if (!expected.has_value()) return OkStatus();
  const CatalogEntryPtr current = Find(KeyFor(tenant, name));
  const std::string digest = current == nullptr ? "" : (*current->generation)->digest;
  if (digest == *expected) return OkStatus();
  if (expected->empty()) return AlreadyExists(StrCat("the name ", quoted, " is taken"));
  return MakeStatus(
      StatusCode::kAborted,
      StrCat(quoted, " stands for ", digest.empty() ? "nothing" : "generation " + digest,
             ", not for the expected ", expected->substr(0, kMaxNameBytes)));
}

StatusOr<CatalogEntryPtr> Catalog::Put(std::string_view tenant, CatalogEntry entry,
                                       const Expected& expected) {
  if (entry.generation == nullptr) return InvalidArgument("a base model cannot be added");
  RETURN_IF_ERROR(CheckEntry(entry));
  const std::string digest = (*entry.generation)->digest;
  const bool is_split = entry.is_split();
  const std::lock_guard changes_lock(changes_mutex_);
  std::vector<std::string> forgotten;
  auto added = PutLocked(tenant, entry, expected, &forgotten);
  // Another process was first: what it has made of the name decides now.
  for (int i = 1; i < kMaxTries && added.status().code() == StatusCode::kAborted; ++i) {
    added = PutLocked(tenant, entry, expected, &forgotten);
  }
  // What the new entry needs may have been let go a moment ago, with a name that had expired; and
  // what was stored for an entry that could not be added nobody needs.
  if (added.ok()) {
    std::erase_if(forgotten, [&](const std::string& old) { return HasStoodFor(**added, old); });
  } else if (!is_split && IsUnused(digest)) {
    forgotten.push_back(digest);
  }
  TellForgotten(forgotten);
  return added;
}

Status Catalog::Sync() {
  const std::lock_guard changes_lock(changes_mutex_);
  return SyncLocked();
}

Status Catalog::SyncLocked() {
  if (options_.registry == nullptr || !options_.restore) return OkStatus();
  ASSIGN_OR_RETURN(const NameChanges changes, options_.registry->Poll());
  for (const RegisteredAdapter& row : changes.changed) TakeOver(row);
  for (const auto& [owner, name] : changes.removed) {
    CatalogEntryPtr removed;  // let go after the lock is
    const std::lock_guard lock(mutex_);
    removed = Take({owner, name});
  }
  return OkStatus();
}

void Catalog::TakeOver(const RegisteredAdapter& row) {
  const Key key = {row.owner, row.name};
  auto restored = options_.restore(row);
  CatalogEntryPtr replaced;  // let go after the lock is
  const std::lock_guard lock(mutex_);
  if (!restored.ok()) {
    LogWarning(StrCat("the name ", JsonQuote(row.name), " of tenant ", JsonQuote(row.owner),
                      " cannot be served: ", Message(restored.status())));
    replaced = Take(key);
    return;
  }
  CatalogEntry entry = *std::move(restored);
  replaced = Take(key);
  if (replaced != nullptr) {
    entry.usage = replaced->usage;
    entry.is_given = replaced->is_given;
  }
  Insert(std::make_shared<const CatalogEntry>(std::move(entry)), replaced);
}

Status Catalog::Sweep() {
  const std::lock_guard changes_lock(changes_mutex_);
  std::vector<std::string> forgotten;
  Status status = RemoveExpired(&forgotten);
  TellForgotten(forgotten);
  return status;
}

void Catalog::Discard(const CatalogEntry& entry) {
  if (entry.is_split()) return;
  const std::lock_guard changes_lock(changes_mutex_);
  const std::string& digest = (*entry.generation)->digest;
  if (IsUnused(digest)) TellForgotten({digest});
}

bool Catalog::IsUnused(const std::string& digest) const {
  return options_.registry != nullptr && !options_.registry->Has(digest);
}

StatusOr<CatalogEntryPtr> Catalog::PutLocked(std::string_view tenant, CatalogEntry entry,
                                             const Expected& expected,
                                             std::vector<std::string>* forgotten) {
  RETURN_IF_ERROR(SyncLocked());
  RETURN_IF_ERROR(RemoveExpired(forgotten));
  RETURN_IF_ERROR(CheckChange(tenant, entry.name, expected));
  // What is replaced is let go after the lock is: that may take time.
  CatalogEntryPtr current;
  Key key;
  {
    const std::lock_guard lock(mutex_);
    key = KeyFor(tenant, entry.name);
    current = Find(key);
    if (current == nullptr && static_cast<int64_t>(adapters_.size()) >= kMaxAdapters) {
      return ResourceExhausted(
          StrCat("there are ", adapters_.size(), " adapters already; unload some first"));
    }
  }
  entry.owner = key.owner;
  if (current != nullptr) {
    if (current->is_given && is_durable() && entry.expires_unix != 0) {
      return FailedPrecondition(GivenByCommandLine(entry.name));
    }
    entry.history = current->history;
    entry.usage = current->usage;
    entry.is_given = current->is_given;
  }
  for (CatalogShare& share : entry.shares) share = WithUsage(share, current.get());
  Remember(options_.clock, &entry);
  if (options_.registry != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<std::string> unused,
                     options_.registry->Put(RegistryRow(entry)));
    forgotten->insert(forgotten->end(), unused.begin(), unused.end());
  }
  auto added = std::make_shared<const CatalogEntry>(std::move(entry));
  const std::lock_guard lock(mutex_);
  const CatalogEntryPtr replaced = Take(key);
  if (current == nullptr) current = replaced;
  Insert(added, replaced);
  return added;
}

Status Catalog::Remove(std::string_view tenant, const std::string& name, const Expected& expected) {
  CatalogEntryPtr removed;
  const std::lock_guard changes_lock(changes_mutex_);
  std::vector<std::string> forgotten;
  Status status;
  for (int i = 0; i < kMaxTries && (i == 0 || status.code() == StatusCode::kAborted); ++i) {
    RETURN_IF_ERROR(SyncLocked());
    RETURN_IF_ERROR(RemoveExpired(&forgotten));
    status = CheckChange(tenant, name, std::nullopt);
    if (status.ok()) status = RemoveLocked(tenant, name, expected, &removed, &forgotten);
  }
  TellForgotten(forgotten);
  return status;
}

Status Catalog::RemoveLocked(std::string_view tenant, const std::string& name,
                             const Expected& expected, CatalogEntryPtr* removed,
                             std::vector<std::string>* forgotten) {
  Key key;
  {
    const std::lock_guard lock(mutex_);
    key = KeyFor(tenant, name);
    *removed = Find(key);
  }
  if (*removed == nullptr) return NotFound(StrCat("there is no adapter ", JsonQuote(name)));
  RETURN_IF_ERROR(CheckChange(tenant, name, expected));
  if ((*removed)->is_given && is_durable()) return FailedPrecondition(GivenByCommandLine(name));
  return RemoveKey(key, forgotten);
}

Status Catalog::RemoveKey(const Key& key, std::vector<std::string>* forgotten) {
  if (options_.registry != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<std::string> unused,
                     options_.registry->Remove(key.owner, key.name));
    forgotten->insert(forgotten->end(), unused.begin(), unused.end());
  }
  CatalogEntryPtr removed;
  const std::lock_guard lock(mutex_);
  removed = Take(key);
  return OkStatus();
}

Status Catalog::RemoveExpired(std::vector<std::string>* forgotten) {
  if (options_.clock == nullptr) return OkStatus();
  while (true) {
    Key key;
    {
      const std::lock_guard lock(mutex_);
      if (expiries_.empty() || expiries_.begin()->first > options_.clock->UnixSeconds()) break;
      key = expiries_.begin()->second;
    }
    RETURN_IF_ERROR(RemoveKey(key, forgotten));
  }
  return OkStatus();
}

void Catalog::TellForgotten(const std::vector<std::string>& digests) const {
  if (!options_.on_forgotten) return;
  for (const std::string& digest : digests) options_.on_forgotten(digest);
}

}  // namespace aril

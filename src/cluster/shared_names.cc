#include "cluster/shared_names.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "cluster/shared_records.h"
#include "delivery/messages.h"

namespace aril::cluster {
namespace {

using std::chrono::minutes;

// Everything is read again after so long. What says that a name has been removed stays for longer,
// so whoever was away for a shorter time still sees it, and whoever was away longer reads it all.
constexpr Duration kRelistAfter = minutes(10);
constexpr Duration kMarkLife = minutes(60);

constexpr int kMaxTries = 5;

// What it stands for.
std::vector<std::string> TargetsOf(const RegisteredAdapter& row) {
  const PastGeneration& last = row.history.back();
  if (last.split.empty()) return {last.digest};
  std::vector<std::string> digests;
  for (const SplitShare& share : last.split) digests.push_back(share.digest);
  return digests;
}

// nullopt: etcd has had more changes than there are ids.
std::optional<AdapterId> IdOf(int64_t create_revision) {
  const int64_t first = delivery::kFirstSharedAdapter.value();
  if (create_revision > std::numeric_limits<int32_t>::max() - first) return std::nullopt;
  return AdapterId(static_cast<int32_t>(first + create_revision));
}

Status ChangedElsewhere(const std::string& name) {
  return MakeStatus(StatusCode::kAborted,
                    StrCat(name, " has been changed through another gateway at the same moment"));
}

}  // namespace

StatusOr<std::unique_ptr<SharedNames>> SharedNames::Open(Options options, KeyValueStore& store,
                                                         const Clock& clock) {
  std::unique_ptr<SharedNames> names(new SharedNames(std::move(options), store, clock));
  RETURN_IF_ERROR(names->CheckBase());
  return names;
}

Status SharedNames::CheckBase() {
  const std::string key = options_.prefix + "base";
  RETURN_IF_ERROR(store_.Commit({{key, 0}}, {{key, options_.base_digest}}).status());
  ASSIGN_OR_RETURN(const KeyValueStore::Item found, Reread(key));
  if (found.value == options_.base_digest) return OkStatus();
  return FailedPrecondition(StrCat("the names beneath ", options_.prefix,
                                   " in etcd are of another base model: give this cluster another "
                                   "--etcd-prefix"));
}

std::string SharedNames::GenerationKey(const std::string& digest) const {
  return StrCat(options_.prefix, "generations/", digest);
}

std::string SharedNames::NameKey(const std::string& owner, const std::string& name) const {
  return StrCat(options_.prefix, "names/", owner.size(), "/", owner, "/", name);
}

std::optional<std::pair<AdapterId, SharedGeneration>> SharedNames::Find(
    const std::string& digest) const {
  const std::lock_guard lock(mutex_);
  const auto found = generations_.find(digest);
  if (found == generations_.end()) return std::nullopt;
  const auto id = IdOf(found->second.create_revision);
  if (!id) return std::nullopt;
  return std::pair(*id, found->second.generation);
}

StatusOr<KeyValueStore::Item> SharedNames::Reread(const std::string& key) {
  ASSIGN_OR_RETURN(KeyValueStore::Listing listing, store_.List(key, 0));
  for (KeyValueStore::Item& item : listing.items) {
    if (item.key == key) return std::move(item);
  }
  return KeyValueStore::Item{.key = key, .value = ""};
}

StatusOr<AdapterId> SharedNames::Register(const SharedGeneration& generation) {
  const std::string key = GenerationKey(generation.digest);
  const std::string value = ToText(generation);
  if (value.size() > kMaxValueBytes) {
    return InvalidArgument(
        StrCat("the adapter's chat template and its own tokens are too long for "
               "a cluster: ",
               value.size(), " bytes with them, and ", kMaxValueBytes, " may be"));
  }
  const std::lock_guard lock(mutex_);
  for (int tries = 0; tries < kMaxTries; ++tries) {
    const auto known = generations_.find(generation.digest);
    const int64_t mod = known == generations_.end() ? 0 : known->second.mod_revision;
    ASSIGN_OR_RETURN(const auto revision, store_.Commit({{key, mod}}, {{key, value}}));
    if (!revision) {
      RETURN_IF_ERROR(RereadGeneration(generation.digest));
      continue;
    }
    Known& written = generations_[generation.digest];
    written.generation = generation;
    written.mod_revision = *revision;
    if (mod == 0) written.create_revision = *revision;
    if (const auto id = IdOf(written.create_revision)) return *id;
    return ResourceExhausted("etcd has had more changes than there are adapters' ids");
  }
  return ChangedElsewhere(StrCat("generation ", generation.digest));
}

Status SharedNames::RereadGeneration(const std::string& digest) {
  ASSIGN_OR_RETURN(const KeyValueStore::Item item, Reread(GenerationKey(digest)));
  generations_.erase(digest);
  if (item.mod_revision != 0) TakeGeneration(item);
  if (const auto taken = generations_.find(digest); taken != generations_.end()) {
    taken->second.is_ahead = true;
  }
  return OkStatus();
}

void SharedNames::Forget(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  ForgetLocked(digest);
}

void SharedNames::ForgetLocked(const std::string& digest) {
  const auto known = generations_.find(digest);
  if (known == generations_.end() || uses_.Has(digest)) return;
  if (known->second.is_ahead) return to_forget_.push_back(digest);
  const std::string key = GenerationKey(digest);
  const auto revision = store_.Commit({{key, known->second.mod_revision}}, {{key, std::nullopt}});
  if (!revision.ok()) {
    LogWarning(
        StrCat("a generation that nobody needs stays in etcd: ", Message(revision.status())));
  } else if (*revision) {
    generations_.erase(known);
  }
}

StatusOr<std::vector<std::string>> SharedNames::Put(const RegisteredAdapter& row) {
  const std::string value = ToText(row);
  if (value.size() > kMaxValueBytes) {
    return ResourceExhausted(StrCat("the sources in the name's history are too long: ",
                                    value.size(), " bytes, and ", kMaxValueBytes, " may be"));
  }
  const std::lock_guard lock(mutex_);
  return Write(NameKey(row.owner, row.name), value, &row);
}

StatusOr<std::vector<std::string>> SharedNames::Remove(const std::string& owner,
                                                       const std::string& name) {
  const std::lock_guard lock(mutex_);
  const std::string key = NameKey(owner, name);
  if (!names_.contains(key)) return std::vector<std::string>();
  return Write(key, "", nullptr);
}

StatusOr<std::vector<std::string>> SharedNames::Write(const std::string& key,
                                                      const std::string& value,
                                                      const RegisteredAdapter* row) {
  const auto current = names_.find(key);
  const auto mark = marks_.find(key);
  int64_t mod = current == names_.end() ? 0 : current->second.mod_revision;
  if (mark != marks_.end()) mod = mark->second.first;
  ASSIGN_OR_RETURN(WriteResult result, TryWrite(key, mod, value, row));
  // Its mark has been removed by another gateway, or the name itself by somebody's hand.
  if (!result.revision && !result.is_there && mod != 0) {
    ASSIGN_OR_RETURN(result, TryWrite(key, 0, value, row));
  }
  if (!result.revision) return ChangedElsewhere(row == nullptr ? "the name" : row->name);
  return Replace(key, row, *result.revision);
}

StatusOr<SharedNames::WriteResult> SharedNames::TryWrite(const std::string& key, int64_t mod,
                                                         const std::string& value,
                                                         const RegisteredAdapter* row) {
  std::vector<KeyValueStore::Condition> conditions = {{key, mod}};
  std::vector<KeyValueStore::Write> writes = {{key, value}};
  const std::vector<std::string> targets =
      row == nullptr ? std::vector<std::string>() : TargetsOf(*row);
  for (const std::string& digest : targets) {
    const auto known = generations_.find(digest);
    if (known == generations_.end()) return ChangedElsewhere(StrCat("generation ", digest));
    // Written again, so that whoever is about to forget it finds it changed.
    conditions.push_back({GenerationKey(digest), known->second.mod_revision});
    writes.push_back({GenerationKey(digest), ToText(known->second.generation)});
  }
  WriteResult result;
  ASSIGN_OR_RETURN(result.revision, store_.Commit(conditions, writes));
  if (result.revision) {
    for (const std::string& digest : targets) {
      generations_.at(digest).mod_revision = *result.revision;
    }
    return result;
  }
  // Somebody else was first; or this call was, by a member whose answer was lost.
  ASSIGN_OR_RETURN(const KeyValueStore::Item found, Reread(key));
  result.is_there = found.mod_revision != 0;
  if (found.value == value && found.mod_revision > mod) result.revision = found.mod_revision;
  for (const std::string& digest : targets) {
    RETURN_IF_ERROR(RereadGeneration(digest));
  }
  return result;
}

std::vector<std::string> SharedNames::Replace(const std::string& key, const RegisteredAdapter* row,
                                              int64_t mod_revision) {
  if (row != nullptr) uses_.Add(*row);  // first: what both hold stays
  std::vector<std::string> unused;
  if (const auto old = names_.find(key); old != names_.end()) {
    unused = uses_.Remove(old->second.row);
    names_.erase(old);
  }
  marks_.erase(key);
  if (row != nullptr) {
    names_[key] = {*row, mod_revision};
  } else {
    marks_[key] = {mod_revision, clock_.Now()};
  }
  return unused;
}

void SharedNames::TakeGeneration(const KeyValueStore::Item& item) {
  auto generation = ReadGeneration(item.value);
  if (!generation.ok()) {
    LogWarning(StrCat("etcd's ", item.key, ": ", Message(generation.status())));
    return;
  }
  const std::string digest = generation->digest;
  generations_[digest] = {*std::move(generation), item.create_revision, item.mod_revision};
}

void SharedNames::TakeName(const KeyValueStore::Item& item, NameChanges* changes) {
  const auto known = names_.find(item.key);
  const auto mark = marks_.find(item.key);
  // Written here, or read already.
  if (known != names_.end() && known->second.mod_revision >= item.mod_revision) return;
  if (mark != marks_.end() && mark->second.first >= item.mod_revision) return;
  auto row =
      item.value.empty() ? StatusOr<RegisteredAdapter>(RegisteredAdapter()) : ReadRow(item.value);
  if (row.ok() && !item.value.empty() && NameKey(row->owner, row->name) != item.key) {
    row = InvalidArgument("it is of another name");
  }
  if (!row.ok()) {
    LogWarning(StrCat("etcd's ", item.key, " is passed over: ", Message(row.status())));
    return;
  }
  if (!item.value.empty()) {
    Replace(item.key, &*row, item.mod_revision);
    changes->changed.push_back(*std::move(row));
  } else {
    if (known != names_.end()) {
      changes->removed.emplace_back(known->second.row.owner, known->second.row.name);
    }
    Replace(item.key, nullptr, item.mod_revision);
  }
}

StatusOr<NameChanges> SharedNames::Poll() {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.Now();
  const bool is_whole = revision_ == 0 || now - last_listing_ >= kRelistAfter;
  ASSIGN_OR_RETURN(const KeyValueStore::Listing listing,
                   store_.List(options_.prefix, is_whole ? 0 : revision_));
  NameChanges changes;
  const std::string names = options_.prefix + "names/";
  const std::string generations = options_.prefix + "generations/";
  if (is_whole) {
    std::set<std::string> present;
    for (const KeyValueStore::Item& item : listing.items) present.insert(item.key);
    std::vector<std::string> gone;
    for (const auto& [key, name] : names_) {
      // What has been written since the listing was made is not in it.
      if (present.contains(key) || name.mod_revision > listing.revision) continue;
      changes.removed.emplace_back(name.row.owner, name.row.name);
      gone.push_back(key);
    }
    for (const std::string& key : gone) {
      Replace(key, nullptr, 0);
      marks_.erase(key);
    }
    std::erase_if(generations_,
                  [&](const auto& known) { return !present.contains(GenerationKey(known.first)); });
    std::erase_if(marks_, [&](const auto& mark) { return !present.contains(mark.first); });
    last_listing_ = now;
  }
  for (const KeyValueStore::Item& item : listing.items) {
    if (item.key.starts_with(generations)) TakeGeneration(item);
  }
  for (const KeyValueStore::Item& item : listing.items) {
    if (item.key.starts_with(names)) TakeName(item, &changes);
  }
  revision_ = listing.revision;
  for (auto& [digest, known] : generations_) known.is_ahead = false;
  for (const std::string& digest : std::exchange(to_forget_, {})) ForgetLocked(digest);
  RemoveMarks();
  return changes;
}

// One at a time: each is a round trip.
void SharedNames::RemoveMarks() {
  const auto old = std::ranges::find_if(
      marks_, [&](const auto& mark) { return clock_.Now() - mark.second.second >= kMarkLife; });
  if (old == marks_.end()) return;
  const auto removed =
      store_.Commit({{old->first, old->second.first}}, {{old->first, std::nullopt}});
  if (removed.ok()) marks_.erase(old);
}

}  // namespace aril::cluster

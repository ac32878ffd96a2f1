#include "catalog/catalog.h"

#include <algorithm>

#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kMaxNameBytes = 128;

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool IsNameCharacter(char c) {
  return IsAlphanumeric(c) || std::string_view("._/:@-").find(c) != std::string_view::npos;
}

Status CheckEntry(const CatalogEntry& entry) {
  if (!IsValidName(entry.name)) {
    return InvalidArgument(StrCat("model name ", JsonQuote(entry.name.substr(0, kMaxNameBytes)),
                                  " must be 1 to ", kMaxNameBytes,
                                  " characters of letters, digits ",
                                  "and . _ / : @ -, starting with a letter or digit"));
  }
  if ((entry.generation != nullptr) == entry.parent.empty()) {
    return InvalidArgument(StrCat("model ", JsonQuote(entry.name),
                                  entry.parent.empty() ? " is an adapter without a parent"
                                                       : " is a base model with a parent"));
  }
  return OkStatus();
}

}  // namespace

bool IsValidName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && IsAlphanumeric(name.front()) &&
         std::ranges::all_of(name, IsNameCharacter);
}

StatusOr<std::shared_ptr<Catalog>> Catalog::Create(std::vector<CatalogEntry> entries) {
  std::shared_ptr<Catalog> catalog(new Catalog());
  for (CatalogEntry& entry : entries) {
    RETURN_IF_ERROR(CheckEntry(entry));
    if (catalog->bases_.contains(entry.name) || catalog->adapters_.contains(entry.name)) {
      return InvalidArgument("model name " + JsonQuote(entry.name) +
                             " is given twice; names must differ");
    }
    if (entry.generation == nullptr && catalog->base_name_.empty()) {
      catalog->base_name_ = entry.name;
    }
    catalog->Insert(std::move(entry));
  }
  return catalog;
}

void Catalog::Insert(CatalogEntry entry) {
  auto shared = std::make_shared<const CatalogEntry>(std::move(entry));
  auto& known = by_adapter_[shared->adapter()];
  if (known.expired()) known = shared;
  auto& names = shared->generation == nullptr ? bases_ : adapters_;
  names[shared->name] = std::move(shared);
  ForgetUnused();
}

void Catalog::ForgetUnused() {
  constexpr size_t kSlack = 64;
  if (by_adapter_.size() < 2 * adapters_.size() + kSlack) return;
  std::erase_if(by_adapter_, [](const auto& known) { return known.second.expired(); });
}

// Names belong to no tenant so far: everybody may use every one.
CatalogEntryPtr Catalog::Resolve(std::string_view /*tenant*/, std::string_view name) const {
  const std::lock_guard lock(mutex_);
  if (const auto base = bases_.find(name); base != bases_.end()) return base->second;
  const auto adapter = adapters_.find(name);
  return adapter == adapters_.end() ? nullptr : adapter->second;
}

std::vector<CatalogEntryPtr> Catalog::List(std::string_view /*tenant*/) const {
  const std::lock_guard lock(mutex_);
  std::vector<CatalogEntryPtr> result;
  result.reserve(bases_.size() + adapters_.size());
  for (const auto& [name, entry] : bases_) result.push_back(entry);
  for (const auto& [name, entry] : adapters_) result.push_back(entry);
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
  const auto other = std::ranges::find_if(
      adapters_, [&](const auto& named) { return named.second->adapter() == adapter; });
  return other == adapters_.end() ? "" : other->first;
}

int64_t Catalog::num_adapters() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(adapters_.size());
}

Status Catalog::Add(CatalogEntry entry, IfTaken if_taken) {
  RETURN_IF_ERROR(CheckEntry(entry));
  if (entry.generation == nullptr) return InvalidArgument("a base model cannot be added");
  // What is replaced is let go after the lock is: that may take time.
  CatalogEntryPtr replaced;
  const std::lock_guard lock(mutex_);
  if (bases_.contains(entry.name)) {
    return InvalidArgument(StrCat(JsonQuote(entry.name), " is a name of the base model"));
  }
  if (const auto taken = adapters_.find(entry.name); taken != adapters_.end()) {
    if (if_taken == IfTaken::kRefuse) {
      return MakeStatus(StatusCode::kAlreadyExists,
                        StrCat("the name ", JsonQuote(entry.name), " is taken"));
    }
    replaced = std::move(taken->second);
    adapters_.erase(taken);
  } else if (static_cast<int64_t>(adapters_.size()) >= kMaxAdapters) {
    return ResourceExhausted(
        StrCat("there are ", adapters_.size(), " adapters already; unload some first"));
  }
  Insert(std::move(entry));
  return OkStatus();
}

Status Catalog::Remove(std::string_view name) {
  CatalogEntryPtr removed;
  const std::lock_guard lock(mutex_);
  if (bases_.contains(name)) {
    return InvalidArgument(StrCat(JsonQuote(std::string(name)), " is a name of the base model"));
  }
  const auto found = adapters_.find(name);
  if (found == adapters_.end()) {
    return NotFound(StrCat("there is no adapter ", JsonQuote(std::string(name))));
  }
  removed = std::move(found->second);
  adapters_.erase(found);
  return OkStatus();
}

}  // namespace aril

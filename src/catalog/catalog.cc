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

// Base models first, then by name: the order of List and what Resolve searches by.
bool ComesBefore(const CatalogEntry& a, const CatalogEntry& b) {
  if (a.adapter.valid() != b.adapter.valid()) return !a.adapter.valid();
  return a.name < b.name;
}

Status CheckEntry(const CatalogEntry& entry) {
  if (!IsValidName(entry.name)) {
    return InvalidArgument(StrCat("model name ", JsonQuote(entry.name.substr(0, kMaxNameBytes)),
                                  " must be 1 to ", kMaxNameBytes,
                                  " characters of letters, digits ",
                                  "and . _ / : @ -, starting with a letter or digit"));
  }
  if (entry.adapter.valid() == entry.parent.empty()) {
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

StatusOr<Catalog> Catalog::Create(std::vector<CatalogEntry> entries) {
  Catalog catalog;
  for (const CatalogEntry& entry : entries) {
    RETURN_IF_ERROR(CheckEntry(entry));
    const auto [where, is_new] = catalog.by_name_.emplace(entry.name, 0);
    if (!is_new) {
      return InvalidArgument("model name " + JsonQuote(entry.name) +
                             " is given twice; names must differ");
    }
  }
  std::ranges::sort(entries, ComesBefore);
  for (size_t i = 0; i < entries.size(); ++i) {
    catalog.by_name_[entries[i].name] = i;
    // Of several names of one model the first is the one that metrics show.
    catalog.by_adapter_.emplace(entries[i].adapter, i);
  }
  catalog.entries_ = std::move(entries);
  return catalog;
}

// Names belong to no tenant so far: everybody may use every one.
const CatalogEntry* Catalog::Resolve(std::string_view /*tenant*/, std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &entries_[it->second];
}

std::vector<const CatalogEntry*> Catalog::List(std::string_view /*tenant*/) const {
  std::vector<const CatalogEntry*> result;
  result.reserve(entries_.size());
  for (const CatalogEntry& entry : entries_) result.push_back(&entry);
  return result;
}

std::string_view Catalog::NameOf(AdapterId adapter) const {
  const auto it = by_adapter_.find(adapter);
  return it == by_adapter_.end() ? std::string_view() : std::string_view(entries_[it->second].name);
}

}  // namespace aril

// The names that users put in `model`, and what they stand for.

#ifndef ARIL_CATALOG_CATALOG_H_
#define ARIL_CATALOG_CATALOG_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace aril {

struct CatalogEntry {
  std::string name;                // the alias
  AdapterId adapter = kBaseModel;  // kBaseModel for the base model's own names
  std::string parent;              // the base model's name; empty for the base model
  std::string root;                // where it came from: a path as the operator gave it
};

// True for 1–128 characters of [A-Za-z0-9._/:@-], starting with a letter or digit: names never
// become paths, and commas would break metrics.
bool IsValidName(std::string_view name);

// Immutable once built; thread-safe.
class Catalog {
 public:
  // InvalidArgument on a duplicate or invalid name, an adapter without a parent, or a base model
  // with one. Several names may stand for one adapter, and for the base model.
  static StatusOr<Catalog> Create(std::vector<CatalogEntry> entries);

  // The entry of that name that `tenant` may use, or nullptr.
  const CatalogEntry* Resolve(std::string_view tenant, std::string_view name) const;
  // All entries that `tenant` may use, base model first, then by name.
  std::vector<const CatalogEntry*> List(std::string_view tenant) const;
  // The name of an adapter or the base model (of several, the first), for metrics; empty if
  // unknown.
  std::string_view NameOf(AdapterId adapter) const;

 private:
  std::vector<CatalogEntry> entries_;  // in the order of List
  // Indices into entries_.
  std::map<std::string, size_t, std::less<>> by_name_;
  std::unordered_map<AdapterId, size_t> by_adapter_;
};

}  // namespace aril

#endif  // ARIL_CATALOG_CATALOG_H_

#include "catalog/restore_entry.h"

#include <utility>
#include <vector>

#include "catalog/split.h"

namespace aril {
namespace {

// An entry of the right name and generations, and nothing else.
StatusOr<CatalogEntry> MakeEntry(const RegisteredAdapter& row, const std::string& parent,
                                 const FindGeneration& find) {
  const PastGeneration& last = row.history.back();
  if (last.split.empty()) {
    ASSIGN_OR_RETURN(auto generation,
                     find({.digest = last.digest, .rank = row.rank, .bytes = row.bytes}));
    return CatalogEntry{.name = row.name,
                        .parent = parent,
                        .root = last.source,
                        .generation = std::move(generation)};
  }
  std::vector<SplitTarget> targets;
  for (const SplitShare& share : last.split) {
    ASSIGN_OR_RETURN(auto generation,
                     find({.digest = share.digest, .rank = share.rank, .bytes = share.bytes}));
    targets.push_back({std::move(generation), share.weight, share.adapter});
  }
  return MakeSplit(row.name, parent, targets);
}

}  // namespace

StatusOr<CatalogEntry> RestoreEntry(const RegisteredAdapter& row, const std::string& parent,
                                    const FindGeneration& find) {
  ASSIGN_OR_RETURN(CatalogEntry entry, MakeEntry(row, parent, find));
  entry.owner = row.owner;
  entry.expires_unix = row.expires_unix;
  entry.is_pinned = row.is_pinned;
  entry.history = row.history;
  return entry;
}

}  // namespace aril

// Names that divide their requests among several generations.
//
// The shares lie one after the other on a line, in the order in which they were given, each as long
// as its weight; a request falls on a point of the line. Who has a key always falls on the same
// one, so that when weights change only those change sides whom a border has passed: from 95:5 to
// 90:10 five of a hundred go from the first to the second, and none comes back.

#ifndef ARIL_CATALOG_SPLIT_H_
#define ARIL_CATALOG_SPLIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"

namespace aril {

inline constexpr size_t kMaxSplitShares = 16;
inline constexpr int64_t kMaxSplitWeight = 1'000'000;

// One share of a split that is to be made.
struct SplitTarget {
  std::shared_ptr<const Generation> generation;
  int64_t weight = 0;
  std::string adapter;  // whose generation that is; empty: the name's own
};

// An entry that is divided so, without what Catalog::Put fills in. InvalidArgument for fewer than 2
// or more than kMaxSplitShares targets, weights that are not from 1 to kMaxSplitWeight, and
// generations that are there twice.
StatusOr<CatalogEntry> MakeSplit(std::string name, std::string parent,
                                 const std::vector<SplitTarget>& targets);

// What a name that is divided so stands for: "split:" and the SHA-256 of a line `WEIGHT
// GENERATION\n` for each share. Never a file's name.
std::string DigestOfSplit(const std::vector<SplitShare>& shares);

// Where on the line of a tenant's name somebody's requests fall. Keys of different kinds have
// nothing to do with one another.
uint64_t SplitPoint(std::string_view tenant, std::string_view name, std::string_view kind,
                    std::string_view key);

// The share on which `point` of 2^64 falls, of which `entry` has at least one.
const CatalogShare& ChooseShare(const CatalogEntry& entry, uint64_t point);

}  // namespace aril

#endif  // ARIL_CATALOG_SPLIT_H_

#include "catalog/split.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace aril {
namespace {

Status CheckTargets(const std::vector<SplitTarget>& targets) {
  if (targets.size() < 2 || targets.size() > kMaxSplitShares) {
    return InvalidArgument(
        StrCat("a split has 2 to ", kMaxSplitShares, " shares, not ", targets.size()));
  }
  std::set<std::string> seen;
  for (const SplitTarget& target : targets) {
    const std::string& digest = (*target.generation)->digest;
    if (target.weight < 1 || target.weight > kMaxSplitWeight) {
      return InvalidArgument(StrCat("a share's weight is from 1 to ", kMaxSplitWeight, ", not ",
                                    target.weight, "; leave out who is to get nothing"));
    }
    if (!seen.insert(digest).second) {
      return InvalidArgument(
          StrCat("generation ", digest, " has two shares; give it one, with both weights"));
    }
  }
  return OkStatus();
}

using Residence = Generation::Residence;

// A generation of which each request gets one of several. Nobody asks a runner for it.
std::shared_ptr<const Generation> Combine(const std::vector<SplitTarget>& targets,
                                          const std::vector<SplitShare>& shares) {
  Generation::Description description = {.adapter = kNoAdapter, .digest = DigestOfSplit(shares)};
  std::vector<std::shared_ptr<const Generation>> parts;
  for (const SplitTarget& target : targets) {
    description.rank = std::max(description.rank, (*target.generation)->rank);
    description.bytes += (*target.generation)->bytes;
    parts.push_back(target.generation);
  }
  const auto residence = [parts] {
    // The farthest.
    Residence least = Residence::kPool;
    for (const auto& part : parts) least = std::min(least, part->residence());
    return least;
  };
  const auto pin = [parts](const std::string& tenant) -> StatusOr<std::shared_ptr<const void>> {
    auto pins = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    for (const auto& part : parts) {
      ASSIGN_OR_RETURN(auto part_pin, part->Pin(tenant));
      pins->push_back(std::move(part_pin));
    }
    return pins;
  };
  return std::make_shared<const Generation>(std::move(description),
                                            Generation::Hooks{.residence = residence, .pin = pin});
}

}  // namespace

StatusOr<CatalogEntry> MakeSplit(std::string name, std::string parent,
                                 const std::vector<SplitTarget>& targets) {
  RETURN_IF_ERROR(CheckTargets(targets));
  CatalogEntry entry = {.name = std::move(name), .parent = std::move(parent)};
  for (const SplitTarget& target : targets) {
    const Generation::Description& description = **target.generation;
    SplitShare share = {.digest = description.digest,
                        .weight = target.weight,
                        .adapter = target.adapter,
                        .rank = description.rank,
                        .bytes = description.bytes};
    entry.shares.push_back(
        {.share = std::move(share),
         .entry = std::make_shared<const CatalogEntry>(CatalogEntry{
             .name = entry.name, .parent = entry.parent, .generation = target.generation})});
  }
  entry.generation = Combine(targets, SharesOf(entry));
  return entry;
}

std::string DigestOfSplit(const std::vector<SplitShare>& shares) {
  std::string lines;
  for (const SplitShare& share : shares) lines += StrCat(share.weight, " ", share.digest, "\n");
  return std::string(kSplitPrefix) + Sha256(lines);
}

uint64_t SplitPoint(std::string_view tenant, std::string_view name, std::string_view kind,
                    std::string_view key) {
  // With their lengths: nothing else reads the same.
  std::string text;
  for (const std::string_view part : {tenant, name, kind, key}) {
    text += StrCat(part.size(), ":", part);
  }
  constexpr size_t kDigitsOf64Bits = 16;
  return std::stoull(Sha256(text).substr(0, kDigitsOf64Bits), nullptr, 16);
}

const CatalogShare& ChooseShare(const CatalogEntry& entry, uint64_t point) {
  CHECK(!entry.shares.empty());
  uint64_t total = 0;
  for (const CatalogShare& share : entry.shares) total += static_cast<uint64_t>(share.share.weight);
  // floor(point · total / 2^64), exactly, in two halves: total < 2^32.
  constexpr uint64_t kLowHalf = 0xFFFFFFFF;
  uint64_t at = ((point >> 32) * total + (((point & kLowHalf) * total) >> 32)) >> 32;
  for (const CatalogShare& share : entry.shares) {
    const auto weight = static_cast<uint64_t>(share.share.weight);
    if (at < weight) return share;
    at -= weight;
  }
  return entry.shares.back();
}

}  // namespace aril

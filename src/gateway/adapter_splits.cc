#include "gateway/adapter_splits.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/strings.h"
#include "catalog/split.h"
#include "gateway/adapter_description.h"
#include "gateway/adapter_errors.h"

namespace aril::gateway {
namespace {

std::string ShareParam(size_t share, std::string_view field) {
  return StrCat("split[", share, "].", field);
}

// The generation that a share is to have.
ApiResult<std::shared_ptr<const Generation>> ObtainShare(const ShareField& share, size_t number,
                                                         const AdapterChange& change,
                                                         const RequestContext& context,
                                                         AdapterLoader& loader) {
  const std::string_view field = share.adapter.empty() ? "generation" : "adapter";
  const std::string param = ShareParam(number, field);
  std::string digest = share.generation;
  if (share.adapter.empty()) {
    const CatalogEntryPtr current = FindAdapter(context, change.name);
    if (current == nullptr || !HasStoodFor(*current, digest)) {
      return NotInHistory(change.name, param);
    }
  } else {
    const CatalogEntryPtr other = context.model.catalog->Resolve(context.tenant, share.adapter);
    if (other == nullptr) return AdapterNotFound(share.adapter, param);
    if (other->generation == nullptr) {
      return InvalidField(param, "`" + param + "` must be an adapter, not the base model.");
    }
    digest = (*other->generation)->digest;
  }
  if (digest.starts_with(kSplitPrefix)) {
    return InvalidField(param, "`" + param +
                                   "` must not be split itself; give the generations of its "
                                   "`split` shares of their own.");
  }
  auto recalled = loader.Recall(digest);
  if (!recalled.ok()) return WithParam(FromStatus(recalled.status()), param);
  return *std::move(recalled);
}

}  // namespace

ApiResult<CatalogEntry> ObtainSplit(const AdapterChange& change, const RequestContext& context,
                                    AdapterLoader& loader) {
  std::vector<SplitTarget> targets;
  for (const ShareField& share : change.split) {
    auto generation = ObtainShare(share, targets.size(), change, context, loader);
    if (!generation.ok()) return generation.error();
    targets.push_back({std::move(generation.value()), share.weight, share.adapter});
  }
  auto entry = MakeSplit(change.name, context.model.catalog->base_name(), targets);
  if (!entry.ok()) return WithParam(FromStatus(entry.status()), "split");
  return *std::move(entry);
}

ApiResult<CatalogEntry> RecallSplit(const AdapterChange& change, const CatalogEntry& current,
                                    const RequestContext& context, AdapterLoader& loader) {
  const auto past = std::ranges::find(current.history, change.generation, &PastGeneration::digest);
  if (past == current.history.end()) return NotInHistory(change.name, "generation");
  std::vector<SplitTarget> targets;
  for (const SplitShare& share : past->split) {
    auto recalled = loader.Recall(share.digest);
    if (!recalled.ok()) return WithParam(FromStatus(recalled.status()), "generation");
    targets.push_back({*std::move(recalled), share.weight, share.adapter});
  }
  auto entry = MakeSplit(change.name, context.model.catalog->base_name(), targets);
  if (!entry.ok()) return WithParam(FromStatus(entry.status()), "generation");
  return *std::move(entry);
}

}  // namespace aril::gateway

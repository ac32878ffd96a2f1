#include "gateway/adapter_description.h"

#include <map>
#include <utility>
#include <vector>

#include "gateway/adapter_errors.h"

namespace aril::gateway {
namespace {

Json NullIf(bool is_null, Json json) { return is_null ? Json() : std::move(json); }

Json ToJson(Generation::Residence residence) {
  switch (residence) {
    case Generation::Residence::kDisk:
      return "disk";
    case Generation::Residence::kHost:
      return "host";
    case Generation::Residence::kPool:
      return "pool";
    case Generation::Residence::kUnknown:
      break;
  }
  return Json();
}

Json::Object ToJson(const SplitShare& share) {
  return {{"generation", share.digest},
          {"weight", share.weight},
          {"adapter", NullIf(share.adapter.empty(), share.adapter)}};
}

Json ToJson(const std::vector<SplitShare>& split) {
  Json::Array shares;
  for (const SplitShare& share : split) shares.push_back(ToJson(share));
  return shares;
}

// The shares of a name that is split, and how they are used; null for others.
Json DescribeShares(const CatalogEntry& entry) {
  if (!entry.is_split()) return Json();
  Json::Array shares;
  for (const CatalogShare& share : entry.shares) {
    Json::Object described = ToJson(share.share);
    described.emplace_back("residence", ToJson(share.entry->generation->residence()));
    described.emplace_back("requests", share.entry->usage->Read().requests);
    shares.push_back(std::move(described));
  }
  return shares;
}

using LoadStatus = std::optional<AdapterLoadStatus>;

Json Describe(const LoadStatus& load) {
  if (!load.has_value()) return Json();
  constexpr const char* kStates[] = {"queued", "loading", "failed"};
  const bool is_failed = load->state == AdapterLoadStatus::State::kFailed;
  return Json::Object{
      {"source", load->source},
      {"status", kStates[static_cast<size_t>(load->state)]},
      {"bytes_done", load->done_bytes},
      {"bytes_total", NullIf(load->total_bytes == 0, load->total_bytes)},
      {"error", NullIf(!is_failed, is_failed ? Message(load->error) : std::string())}};
}

// A name that has no generation yet.
Json DescribeLoading(const std::string& name, const LoadStatus& load, const Catalog& catalog) {
  const bool is_failed = load->state == AdapterLoadStatus::State::kFailed;
  return Json::Object{{"id", name},
                      {"object", "adapter"},
                      {"status", is_failed ? "failed" : "loading"},
                      {"parent", catalog.base_name()},
                      {"source", load->source},
                      {"generation", Json()},
                      {"load", Describe(load)}};
}

LoadStatus FindLoad(const RequestContext& context, const std::string& name) {
  return context.loads == nullptr ? std::nullopt : context.loads->Find(context.tenant, name);
}

}  // namespace

CatalogEntryPtr FindAdapter(const RequestContext& context, const std::string& name) {
  CatalogEntryPtr entry = context.model.catalog->Resolve(context.tenant, name);
  return entry == nullptr || entry->generation == nullptr ? nullptr : entry;
}

Json DescribeEntry(const CatalogEntry& entry, const Catalog& catalog,
                   const std::optional<AdapterLoadStatus>& load) {
  const Generation::Description& generation = **entry.generation;
  const NameUsage::Numbers usage = entry.usage->Read();
  Json::Array history;
  for (const PastGeneration& past : entry.history) {
    Json::Object described = {{"generation", past.digest},
                              {"since", past.since_unix},
                              {"source", NullIf(past.source.empty(), past.source)}};
    if (!past.split.empty()) described.emplace_back("split", ToJson(past.split));
    history.push_back(std::move(described));
  }
  return Json::Object{{"id", entry.name},
                      {"object", "adapter"},
                      {"status", "ready"},
                      {"parent", entry.parent},
                      {"source", NullIf(entry.root.empty(), entry.root)},
                      {"generation", generation.digest},
                      {"split", DescribeShares(entry)},
                      {"rank", generation.rank},
                      {"bytes", generation.bytes},
                      {"residence", ToJson(entry.generation->residence())},
                      {"pin", entry.is_pinned},
                      {"pin_error", NullIf(entry.pin_error.empty(), entry.pin_error)},
                      {"durable", catalog.is_durable() || entry.is_given},
                      {"expires_at", NullIf(entry.expires_unix == 0, entry.expires_unix)},
                      {"requests", usage.requests},
                      {"last_used", NullIf(usage.last_used_unix == 0, usage.last_used_unix)},
                      {"error", NullIf(usage.error.empty(), usage.error)},
                      {"history", std::move(history)},
                      {"load", Describe(load)}};
}

Json ListAdapters(const RequestContext& context) {
  const Catalog& catalog = *context.model.catalog;
  std::map<std::string, AdapterLoadStatus> loads;
  if (context.loads != nullptr) {
    for (auto& [name, load] : context.loads->List(context.tenant)) loads.emplace(name, load);
  }
  Json::Array data;
  for (const CatalogEntryPtr& entry : catalog.List(context.tenant)) {
    if (entry->generation == nullptr) continue;
    const auto load = loads.extract(entry->name);
    data.push_back(
        DescribeEntry(*entry, catalog, load.empty() ? LoadStatus() : LoadStatus(load.mapped())));
  }
  for (const auto& [name, load] : loads) data.push_back(DescribeLoading(name, load, catalog));
  return Json::Object{{"object", "list"}, {"data", std::move(data)}};
}

ApiResult<Json> DescribeAdapter(const std::string& name, const RequestContext& context) {
  // Asked in this order, what is over is not missed.
  const LoadStatus load = FindLoad(context, name);
  const CatalogEntryPtr entry = FindAdapter(context, name);
  if (entry != nullptr) return DescribeEntry(*entry, *context.model.catalog, load);
  if (load.has_value()) return DescribeLoading(name, load, *context.model.catalog);
  return AdapterNotFound(name, "");
}

}  // namespace aril::gateway

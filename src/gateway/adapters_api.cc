#include "gateway/adapters_api.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "catalog/split.h"
#include "gateway/json_fields.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

constexpr int64_t kMaxTtlSeconds = int64_t{10} * 365 * 24 * 3600;
constexpr size_t kShownDigits = 12;              // of a digest, in the log
constexpr const char* kUploadSource = "upload";  // of an adapter that a client has sent

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

Json Describe(const CatalogEntry& entry, const Catalog& catalog, const LoadStatus& load) {
  const Generation::Description& generation = **entry.generation;
  const NameUsage::Numbers usage = entry.usage->Read();
  Json::Array history;
  for (const PastGeneration& past : entry.history) {
    Json::Object described = {{"generation", past.digest}, {"since", past.since_unix}};
    if (!past.split.empty()) described.emplace_back("split", ToJson(past.split));
    history.push_back(std::move(described));
  }
  return Json::Object{{"id", entry.name},
                      {"object", "adapter"},
                      {"status", "ready"},
                      {"parent", entry.parent},
                      {"source", NullIf(entry.is_split(), entry.root)},
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

ApiError AdapterNotFound(const std::string& name, std::string_view param) {
  return {.status = 404,
          .message = "The adapter `" + name + "` does not exist.",
          .param = std::string(param),
          .code = "adapter_not_found"};
}

// A field that must be there and not be empty.
std::string GetRequired(JsonFields& fields, std::string_view name) {
  std::string value = fields.GetString(name, "");
  if (value.empty()) fields.Fail(name, "is required");
  return value;
}

ApiError WithParam(ApiError error, std::string_view param) {
  error.param = std::string(param);
  return error;
}

// What the catalog says of a change of a name.
ApiError ChangeError(const Status& status, std::string_view name_param) {
  ApiError error = WithParam(FromStatus(status), name_param);
  const bool is_conflict = status.code() == StatusCode::kAborted;
  // Somebody changed the name while it was being loaded.
  const bool is_cancelled = status.code() == StatusCode::kCancelled;
  if (is_conflict || is_cancelled || status.code() == StatusCode::kFailedPrecondition) {
    error.status = 409;
  }
  if (is_conflict || is_cancelled) error.type = "invalid_request_error";
  if (is_conflict) error.code = "generation_conflict";
  return error;
}

// The names of an API's fields, for its errors.
struct Params {
  std::string_view name;
  std::string_view source;
};
constexpr Params kVllmParams = {.name = "lora_name", .source = "lora_path"};
constexpr Params kPutParams = {.name = "name", .source = "source"};

// A share that a client asks for: of a generation that the name has stood for, or of the one that
// another adapter stands for.
struct ShareField {
  std::string generation;
  std::string adapter;
  int64_t weight = 0;
};

struct Change {
  std::string name;
  std::string source;      // or a generation that the name has stood for:
  std::string generation;  // or several:
  std::vector<ShareField> split;
  Catalog::Expected expected;
  int64_t ttl_seconds = 0;  // 0: it stays
  std::optional<bool> pin;  // absent: as it is
  ExpectedDigests digests;  // of a source's files
};

bool HasTarget(const Change& change) {
  return !change.source.empty() || !change.generation.empty() || !change.split.empty();
}

ApiError NotInHistory(const std::string& name, std::string_view param) {
  return {.status = 404,
          .message = "The adapter `" + name +
                     "` has not stood for that generation; `history` of GET /v1/adapters/" + name +
                     " lists those that it has.",
          .param = std::string(param),
          .code = ""};
}

// Whether a name has stood for a generation, alone or as one of several.
bool HasStoodFor(const CatalogEntry& entry, const std::string& digest) {
  const auto is_it = [&](const auto& past) { return past.digest == digest; };
  return std::ranges::any_of(entry.history, [&](const PastGeneration& past) {
    return is_it(past) || std::ranges::any_of(past.split, is_it);
  });
}

std::string ShareParam(size_t share, std::string_view field) {
  return StrCat("split[", share, "].", field);
}

// The entry that `tenant` may change under this name, or null.
CatalogEntryPtr Current(const RequestContext& context, const std::string& name) {
  CatalogEntryPtr entry = context.model.catalog->Resolve(context.tenant, name);
  return entry == nullptr || entry->generation == nullptr ? nullptr : entry;
}

// The generation that a share is to have.
ApiResult<std::shared_ptr<const Generation>> ObtainShare(const ShareField& share, size_t number,
                                                         const Change& change,
                                                         const RequestContext& context,
                                                         AdapterLoader& loader) {
  const std::string_view field = share.adapter.empty() ? "generation" : "adapter";
  const std::string param = ShareParam(number, field);
  std::string digest = share.generation;
  if (share.adapter.empty()) {
    const CatalogEntryPtr current = Current(context, change.name);
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

ApiResult<CatalogEntry> ObtainSplit(const Change& change, const std::vector<ShareField>& shares,
                                    const RequestContext& context, AdapterLoader& loader) {
  std::vector<SplitTarget> targets;
  for (const ShareField& share : shares) {
    auto generation = ObtainShare(share, targets.size(), change, context, loader);
    if (!generation.ok()) return generation.error();
    targets.push_back({std::move(generation.value()), share.weight, share.adapter});
  }
  auto entry = MakeSplit(change.name, context.model.catalog->base_name(), targets);
  if (!entry.ok()) return WithParam(FromStatus(entry.status()), "split");
  return *std::move(entry);
}

// A split that the name has stood for, again.
ApiResult<CatalogEntry> RecallSplit(const Change& change, const CatalogEntry& current,
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

// What the name is to stand for, and where that came from.
ApiResult<CatalogEntry> Obtain(const Change& change, const RequestContext& context,
                               AdapterLoader& loader, const Params& params) {
  CatalogEntry entry = {
      .name = change.name, .parent = context.model.catalog->base_name(), .root = change.source};
  if (!change.source.empty()) {
    auto loaded = loader.Load(change.source);
    if (!loaded.ok()) return WithParam(FromStatus(loaded.status()), params.source);
    entry.generation = *std::move(loaded);
    return entry;
  }
  if (!change.split.empty()) return ObtainSplit(change, change.split, context, loader);
  const CatalogEntryPtr current = Current(context, change.name);
  if (current == nullptr || !HasStoodFor(*current, change.generation)) {
    return NotInHistory(change.name, "generation");
  }
  if (change.generation.starts_with(kSplitPrefix)) {
    return RecallSplit(change, *current, context, loader);
  }
  auto recalled = loader.Recall(change.generation);
  if (!recalled.ok()) return WithParam(FromStatus(recalled.status()), "generation");
  entry.generation = *std::move(recalled);
  entry.root = current->root;
  return entry;
}

// Fills in what the change leaves as it is.
std::optional<ApiError> Complete(const RequestContext& context, Change* change) {
  const CatalogEntryPtr current = Current(context, change->name);
  if (!change->pin.has_value()) change->pin = current != nullptr && current->is_pinned;
  if (*change->pin && change->ttl_seconds != 0) {
    return InvalidField("ttl_seconds",
                        "A pinned adapter stays: give `ttl_seconds` only with `pin`: false.");
  }
  if (HasTarget(*change)) return std::nullopt;
  if (current == nullptr) return AdapterNotFound(change->name, "");
  change->generation = (*current->generation)->digest;
  return std::nullopt;
}

int64_t ExpiryOf(const Change& change, int64_t now_unix) {
  return change.ttl_seconds == 0 ? 0 : now_unix + change.ttl_seconds;
}

void LogChange(const CatalogEntry& entry) {
  LogInfo(StrCat("adapter ", entry.name, " is generation ",
                 (*entry.generation)->digest.substr(0, kShownDigits), " from ",
                 JsonQuote(entry.root)));  // a client's text, on one line
}

// Pins what the change asks to be pinned; it is complete.
Status PinIfWanted(const Change& change, CatalogEntry* wanted) {
  wanted->is_pinned = *change.pin;
  if (!wanted->is_pinned) return OkStatus();
  ASSIGN_OR_RETURN(wanted->pin, wanted->generation->Pin());
  return OkStatus();
}

ApiResult<CatalogEntryPtr> Apply(Change change, const RequestContext& context,
                                 AdapterLoader& loader, const RemoteAdapters& remote,
                                 const Params& params) {
  Catalog& catalog = *context.model.catalog;
  // Before the adapter is read; Put decides.
  const Status allowed = catalog.CheckChange(context.tenant, change.name, change.expected);
  if (!allowed.ok()) return ChangeError(allowed, params.name);
  if (auto error = Complete(context, &change)) return *error;
  auto obtained = Obtain(change, context, loader, params);
  if (!obtained.ok()) return obtained.error();
  CatalogEntry& wanted = obtained.value();
  wanted.expires_unix = ExpiryOf(change, context.unix_seconds);
  const Status pinned = PinIfWanted(change, &wanted);
  if (!pinned.ok()) return ChangeError(pinned, "pin");
  auto entry = catalog.Put(context.tenant, std::move(wanted), change.expected);
  if (!entry.ok()) return ChangeError(entry.status(), params.name);
  // The newest change is what the name is to stand for.
  if (remote.loads != nullptr) remote.loads->Cancel(std::string(context.tenant), change.name);
  LogChange(**entry);
  return *std::move(entry);
}

// Makes files that are here what the name stands for; the change is complete. Whoever calls holds
// loads->changes().
StatusOr<CatalogEntryPtr> TakeAndPut(const Change& change, std::string_view tenant,
                                     GenerationStore::Incoming incoming, Catalog& catalog,
                                     const RemoteAdapters& remote) {
  RETURN_IF_ERROR(catalog.CheckChange(tenant, change.name, change.expected));
  ASSIGN_OR_RETURN(auto generation, remote.loader->Take(std::move(incoming), change.source));
  CatalogEntry wanted = {.name = change.name,
                         .parent = catalog.base_name(),
                         .root = change.source,
                         .generation = std::move(generation),
                         .expires_unix = ExpiryOf(change, remote.clock->UnixSeconds())};
  RETURN_IF_ERROR(PinIfWanted(change, &wanted));
  ASSIGN_OR_RETURN(CatalogEntryPtr entry, catalog.Put(tenant, std::move(wanted), change.expected));
  LogChange(*entry);
  return entry;
}

// What a load does, on a thread of its own.
Status FetchAndPut(const Change& change, const std::string& tenant, Catalog& catalog,
                   const RemoteAdapters& remote, TransferMonitor& monitor) {
  ASSIGN_OR_RETURN(GenerationStore::Incoming incoming,
                   remote.loader->Fetch(change.source, monitor));
  RETURN_IF_ERROR(CheckDigests(incoming, change.digests));
  const std::lock_guard lock(remote.loads->changes());
  if (monitor.IsCancelled()) return MakeStatus(StatusCode::kCancelled, "cancelled");
  return TakeAndPut(change, tenant, std::move(incoming), catalog, remote).status();
}

// Begins to load what has to be fetched.
std::optional<ApiError> StartLoad(Change change, const RequestContext& context,
                                  const RemoteAdapters& remote, const Params& params,
                                  AdapterLoads::Done done = nullptr) {
  const std::shared_ptr<Catalog> catalog = context.model.catalog;
  const std::string tenant(context.tenant);
  const Status allowed = catalog->CheckChange(tenant, change.name, change.expected);
  if (!allowed.ok()) return ChangeError(allowed, params.name);
  const Status source = remote.loader->Check(change.source);
  if (!source.ok()) return WithParam(FromStatus(source), params.source);
  if (auto error = Complete(context, &change)) return error;
  const auto work = [change, tenant, catalog, remote](TransferMonitor& monitor) {
    Status status = FetchAndPut(change, tenant, *catalog, remote, monitor);
    if (!status.ok() && status.code() != StatusCode::kCancelled) {
      LogWarning(StrCat("adapter ", change.name, " could not be loaded from ",
                        JsonQuote(change.source), ": ", JsonQuote(Message(status))));
    }
    return status;
  };
  const Status started =
      remote.loads->Start(tenant, change.name, change.source, work, std::move(done));
  if (!started.ok()) return FromStatus(started);
  return std::nullopt;
}

bool IsRemote(const Change& change, const RemoteAdapters& remote) {
  return remote.loader != nullptr && remote.loader->IsRemote(change.source);
}

Status Remove(const std::string& name, const Catalog::Expected& expected,
              const RequestContext& context) {
  RETURN_IF_ERROR(context.model.catalog->Remove(context.tenant, name, expected));
  LogInfo(StrCat("adapter ", name, " is unloaded"));
  return OkStatus();
}

std::vector<ShareField> ReadSplit(JsonFields& fields) {
  std::vector<ShareField> shares;
  const Json* split = fields.Find("split");
  if (split == nullptr) return shares;
  const Json::Array* array = split->AsArray();
  if (array == nullptr || array->size() < 2 || array->size() > kMaxSplitShares) {
    fields.Fail("split", StrCat("must be an array of 2 to ", kMaxSplitShares, " shares"));
    return shares;
  }
  for (const Json& item : *array) {
    const std::string where = StrCat("split[", shares.size(), "]");
    if (item.AsObject() == nullptr) {
      fields.Fail(where, "must be an object, not " + item.KindName());
      return shares;
    }
    JsonFields share(item, where + ".");
    const bool has_weight = share.Find("weight") != nullptr;
    shares.push_back({.generation = share.GetString("generation", ""),
                      .adapter = share.GetString("adapter", ""),
                      .weight = share.GetInt("weight", 1, 1, kMaxSplitWeight)});
    if (!has_weight) share.Fail("weight", "is required");
    if (shares.back().generation.empty() == shares.back().adapter.empty()) {
      share.Fail("generation", "or `adapter` is required, one of them");
    }
    fields.Take(share);
  }
  return shares;
}

void ReadDigests(JsonFields& fields, Change* change) {
  change->digests.generation = fields.GetString("digest", "");
  if (!change->digests.generation.empty() && !IsDigest(change->digests.generation)) {
    fields.Fail("digest",
                "must be the generation expected: 64 hexadecimal digits in small letters");
  }
  const Json* files = fields.Find("sha256");
  if (files == nullptr) return;
  const std::vector<std::string> names = AdapterFileNames();
  const Json::Object* members = files->AsObject();
  if (members == nullptr) return fields.Fail("sha256", "must be an object of digests by file name");
  for (const auto& [name, digest] : *members) {
    const std::string* text = digest.AsString();
    if (std::ranges::find(names, name) == names.end() || text == nullptr || !IsDigest(*text)) {
      return fields.Fail("sha256", "must give 64 hexadecimal digits in small letters for each of " +
                                       Join(names, ", ") + " that is named");
    }
    change->digests.files.emplace(name, *text);
  }
}

ApiResult<Change> ParseChange(const std::string& name, const Json& body) {
  JsonFields fields(body);
  Change change = {.name = name,
                   .source = fields.GetString("source", ""),
                   .generation = fields.GetString("generation", ""),
                   .split = ReadSplit(fields),
                   .ttl_seconds = fields.GetInt("ttl_seconds", 0, 1, kMaxTtlSeconds)};
  if (fields.Find("expected_generation") != nullptr) {
    change.expected = fields.GetString("expected_generation", "");
  }
  if (fields.Find("pin") != nullptr) change.pin = fields.GetBool("pin", false);
  const int num_targets =
      int{!change.source.empty()} + int{!change.generation.empty()} + int{!change.split.empty()};
  if (num_targets > 1) {
    fields.Fail("source", "and `generation` and `split` exclude each other; give one of them");
  } else if (num_targets == 0 && !change.pin.has_value()) {
    fields.Fail("source", "or `generation` or `split` is required, one of them, or `pin` alone");
  }
  ReadDigests(fields, &change);
  if (!fields.ok()) return *fields.error();
  return change;
}

ApiResult<bool> ReadDryRun(std::string_view query) {
  const auto value = FindQueryParameter(query, "dry_run");
  if (!value.has_value() || *value == "false") return false;
  if (*value == "true") return true;
  return InvalidField("dry_run", "`dry_run` must be `true` or `false`.");
}

// What would be there.
ApiResult<PutAnswer> DescribeVerified(const Change& change, const Catalog& catalog,
                                      const StatusOr<Generation::Description>& verified) {
  if (!verified.ok()) return WithParam(FromStatus(verified.status()), kPutParams.source);
  return PutAnswer{.adapter = Json::Object{{"id", change.name},
                                           {"object", "adapter"},
                                           {"dry_run", true},
                                           {"parent", catalog.base_name()},
                                           {"source", change.source},
                                           {"generation", verified->digest},
                                           {"rank", verified->rank},
                                           {"bytes", verified->bytes}}};
}

ApiResult<PutAnswer> DryRun(const Change& change, const RequestContext& context,
                            AdapterLoader& loader) {
  const Catalog& catalog = *context.model.catalog;
  const Status allowed = catalog.CheckChange(context.tenant, change.name, change.expected);
  if (!allowed.ok()) return ChangeError(allowed, kPutParams.name);
  if (change.source.empty()) return InvalidField("dry_run", "`dry_run` needs a `source`.");
  return DescribeVerified(change, catalog, loader.Verify(change.source));
}

// The parameters of an upload.
ApiResult<Change> ParseUpload(const std::string& name, std::string_view query) {
  Change change = {.name = name,
                   .source = kUploadSource,
                   .expected = FindQueryParameter(query, "expected_generation")};
  change.digests.generation = FindQueryParameter(query, "digest").value_or("");
  if (!change.digests.IsEmpty() && !IsDigest(change.digests.generation)) {
    return InvalidField("digest", "`digest` must be 64 hexadecimal digits in small letters.");
  }
  const auto ttl = FindQueryParameter(query, "ttl_seconds");
  if (!ttl.has_value()) return change;
  const auto [end, error] =
      std::from_chars(ttl->data(), ttl->data() + ttl->size(), change.ttl_seconds);
  if (error != std::errc() || end != ttl->data() + ttl->size() || change.ttl_seconds < 1 ||
      change.ttl_seconds > kMaxTtlSeconds) {
    return InvalidField("ttl_seconds",
                        StrCat("`ttl_seconds` must be an integer from 1 to ", kMaxTtlSeconds, "."));
  }
  return change;
}

}  // namespace

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
        Describe(*entry, catalog, load.empty() ? LoadStatus() : LoadStatus(load.mapped())));
  }
  for (const auto& [name, load] : loads) data.push_back(DescribeLoading(name, load, catalog));
  return Json::Object{{"object", "list"}, {"data", std::move(data)}};
}

ApiResult<Json> DescribeAdapter(const std::string& name, const RequestContext& context) {
  // Asked in this order, what is over is not missed.
  const LoadStatus load = FindLoad(context, name);
  const CatalogEntryPtr entry = Current(context, name);
  if (entry != nullptr) return Describe(*entry, *context.model.catalog, load);
  if (load.has_value()) return DescribeLoading(name, load, *context.model.catalog);
  return AdapterNotFound(name, "");
}

ApiResult<PutAnswer> PutAdapter(const std::string& name, std::string_view query,
                                std::string_view body, const RequestContext& context,
                                AdapterLoader& loader, const RemoteAdapters& remote) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  const auto change = ParseChange(name, json.value());
  if (!change.ok()) return change.error();
  const auto dry_run = ReadDryRun(query);
  if (!dry_run.ok()) return dry_run.error();
  if (IsRemote(change.value(), remote)) {
    if (dry_run.value()) {
      return InvalidField("dry_run",
                          "`dry_run` needs a source that is here: a folder or an upload.");
    }
    if (auto error = StartLoad(change.value(), context, remote, kPutParams)) return *error;
    auto adapter = DescribeAdapter(name, context);
    if (!adapter.ok()) return adapter.error();  // it failed, or was cancelled, this very moment
    return PutAnswer{.is_loading = true, .adapter = std::move(adapter.value())};
  }
  if (!change.value().digests.IsEmpty()) {
    return InvalidField("digest", "`digest` and `sha256` are for sources that are fetched.");
  }
  if (dry_run.value()) return DryRun(change.value(), context, loader);
  const bool is_new = Current(context, name) == nullptr;
  const auto entry = Apply(change.value(), context, loader, remote, kPutParams);
  if (!entry.ok()) return entry.error();
  return PutAnswer{.is_new = is_new,
                   .adapter = Describe(*entry.value(), *context.model.catalog, std::nullopt)};
}

std::optional<ApiError> CheckName(const std::string& name, const RequestContext& context) {
  const Status allowed =
      context.model.catalog->CheckChange(context.tenant, name, Catalog::Expected());
  if (allowed.ok()) return std::nullopt;
  return ChangeError(allowed, kPutParams.name);
}

ApiResult<PutAnswer> PutUpload(const std::string& name, std::string_view query,
                               StatusOr<GenerationStore::Incoming> upload,
                               const RequestContext& context, const RemoteAdapters& remote) {
  if (!upload.ok()) {
    ApiError error = FromStatus(upload.status());
    if (error.status == 404) error.status = 400;  // a part is missing, not what was asked for
    return error;
  }
  auto change = ParseUpload(name, query);
  if (!change.ok()) return change.error();
  const auto dry_run = ReadDryRun(query);
  if (!dry_run.ok()) return dry_run.error();
  Catalog& catalog = *context.model.catalog;
  const Status allowed = catalog.CheckChange(context.tenant, name, change.value().expected);
  if (!allowed.ok()) return ChangeError(allowed, kPutParams.name);
  const Status expected = CheckDigests(*upload, change.value().digests);
  if (!expected.ok()) return WithParam(FromStatus(expected), "digest");
  if (dry_run.value()) {
    return DescribeVerified(change.value(), catalog, remote.loader->Verify(*upload, kUploadSource));
  }
  if (auto error = Complete(context, &change.value())) return *error;
  const bool is_new = Current(context, name) == nullptr;
  const auto entry =
      TakeAndPut(change.value(), context.tenant, *std::move(upload), catalog, remote);
  if (!entry.ok()) return ChangeError(entry.status(), "");
  remote.loads->Cancel(std::string(context.tenant), name);
  return PutAnswer{.is_new = is_new, .adapter = Describe(**entry, catalog, std::nullopt)};
}

ApiResult<Json> DeleteAdapter(const std::string& name, std::string_view query,
                              const RequestContext& context, const RemoteAdapters& remote) {
  const auto expected = FindQueryParameter(query, "expected_generation");
  Status removed = Remove(name, expected, context);
  const bool may_cancel =
      removed.ok() || (removed.code() == StatusCode::kNotFound && expected.value_or("").empty());
  const bool is_cancelled = may_cancel && remote.loads != nullptr &&
                            remote.loads->Cancel(std::string(context.tenant), name);
  if (is_cancelled) removed = OkStatus();
  if (removed.code() == StatusCode::kNotFound) return AdapterNotFound(name, "");
  if (!removed.ok()) return ChangeError(removed, "");
  return Json(Json::Object{{"id", name}, {"object", "adapter"}, {"deleted", true}});
}

ApiResult<std::optional<std::string>> LoadAdapter(std::string_view body,
                                                  const RequestContext& context,
                                                  AdapterLoader& loader,
                                                  const RemoteAdapters& remote,
                                                  std::function<void(LoadOutcome)> later) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  const Change change = {
      .name = GetRequired(fields, "lora_name"),
      .source = GetRequired(fields, "lora_path"),
      .expected = fields.GetBool("load_inplace", false) ? Catalog::Expected() : std::string()};
  if (!fields.ok()) return *fields.error();
  const CatalogEntryPtr taken = Current(context, change.name);
  if (taken != nullptr && change.expected.has_value()) {
    return ApiError{.status = 409,
                    .message = "The adapter `" + change.name +
                               "` has already been loaded. To put another one in its place, set "
                               "`load_inplace` to true.",
                    .param = "lora_name",
                    .code = ""};
  }
  const std::string success =
      StrCat("Success: LoRA adapter '", change.name, "' added successfully.");
  if (IsRemote(change, remote)) {
    const auto done = [later = std::move(later), success](const Status& status) {
      later(status.ok() ? LoadOutcome(success)
                        : LoadOutcome(WithParam(ChangeError(status, ""), kVllmParams.source)));
    };
    if (auto error = StartLoad(change, context, remote, kVllmParams, done)) return *error;
    return std::optional<std::string>();
  }
  const auto entry = Apply(change, context, loader, remote, kVllmParams);
  if (!entry.ok()) return entry.error();
  return std::optional(success);
}

ApiResult<std::string> UnloadAdapter(std::string_view body, const RequestContext& context,
                                     const RemoteAdapters& remote) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  const std::string name = GetRequired(fields, "lora_name");
  if (!fields.ok()) return *fields.error();
  Status removed = Remove(name, std::nullopt, context);
  const bool may_cancel = removed.ok() || removed.code() == StatusCode::kNotFound;
  if (may_cancel && remote.loads != nullptr &&
      remote.loads->Cancel(std::string(context.tenant), name)) {
    removed = OkStatus();
  }
  if (removed.code() == StatusCode::kNotFound) return AdapterNotFound(name, "lora_name");
  if (!removed.ok()) return ChangeError(removed, "lora_name");
  return StrCat("Success: LoRA adapter '", name, "' removed successfully.");
}

}  // namespace aril::gateway

#include "gateway/adapters_api.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "catalog/split.h"
#include "gateway/json_fields.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

constexpr int64_t kMaxTtlSeconds = int64_t{10} * 365 * 24 * 3600;
constexpr size_t kShownDigits = 12;  // of a digest, in the log

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

Json Describe(const CatalogEntry& entry, const Catalog& catalog) {
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
                      {"history", std::move(history)}};
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
  if (is_conflict || status.code() == StatusCode::kFailedPrecondition) error.status = 409;
  if (is_conflict) {
    error.type = "invalid_request_error";
    error.code = "generation_conflict";
  }
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

ApiResult<CatalogEntryPtr> Apply(Change change, const RequestContext& context,
                                 AdapterLoader& loader, const Params& params) {
  Catalog& catalog = *context.model.catalog;
  // Before the adapter is read; Put decides.
  const Status allowed = catalog.CheckChange(context.tenant, change.name, change.expected);
  if (!allowed.ok()) return ChangeError(allowed, params.name);
  if (auto error = Complete(context, &change)) return *error;
  auto obtained = Obtain(change, context, loader, params);
  if (!obtained.ok()) return obtained.error();
  CatalogEntry& wanted = obtained.value();
  wanted.expires_unix = change.ttl_seconds == 0 ? 0 : context.unix_seconds + change.ttl_seconds;
  wanted.is_pinned = *change.pin;
  if (wanted.is_pinned) {
    auto pinned = wanted.generation->Pin();
    if (!pinned.ok()) return ChangeError(pinned.status(), "pin");
    wanted.pin = *std::move(pinned);
  }
  auto entry = catalog.Put(context.tenant, std::move(wanted), change.expected);
  if (!entry.ok()) return ChangeError(entry.status(), params.name);
  LogInfo(StrCat("adapter ", change.name, " is generation ",
                 (*(*entry)->generation)->digest.substr(0, kShownDigits), " from ",
                 JsonQuote((*entry)->root)));  // a client's text, on one line
  return *std::move(entry);
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
  if (!fields.ok()) return *fields.error();
  return change;
}

ApiResult<bool> ReadDryRun(std::string_view query) {
  const auto value = FindQueryParameter(query, "dry_run");
  if (!value.has_value() || *value == "false") return false;
  if (*value == "true") return true;
  return InvalidField("dry_run", "`dry_run` must be `true` or `false`.");
}

ApiResult<PutAnswer> DryRun(const Change& change, const RequestContext& context,
                            AdapterLoader& loader) {
  const Catalog& catalog = *context.model.catalog;
  const Status allowed = catalog.CheckChange(context.tenant, change.name, change.expected);
  if (!allowed.ok()) return ChangeError(allowed, kPutParams.name);
  if (change.source.empty()) return InvalidField("dry_run", "`dry_run` needs a `source`.");
  const auto verified = loader.Verify(change.source);
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

}  // namespace

Json ListAdapters(const ServedModel& model, std::string_view tenant) {
  Json::Array data;
  for (const CatalogEntryPtr& entry : model.catalog->List(tenant)) {
    if (entry->generation != nullptr) data.push_back(Describe(*entry, *model.catalog));
  }
  return Json::Object{{"object", "list"}, {"data", std::move(data)}};
}

ApiResult<Json> DescribeAdapter(const ServedModel& model, std::string_view tenant,
                                const std::string& name) {
  const CatalogEntryPtr entry = model.catalog->Resolve(tenant, name);
  if (entry == nullptr || entry->generation == nullptr) return AdapterNotFound(name, "");
  return Describe(*entry, *model.catalog);
}

ApiResult<PutAnswer> PutAdapter(const std::string& name, std::string_view query,
                                std::string_view body, const RequestContext& context,
                                AdapterLoader& loader) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  const auto change = ParseChange(name, json.value());
  if (!change.ok()) return change.error();
  const auto dry_run = ReadDryRun(query);
  if (!dry_run.ok()) return dry_run.error();
  if (dry_run.value()) return DryRun(change.value(), context, loader);
  const bool is_new = Current(context, name) == nullptr;
  const auto entry = Apply(change.value(), context, loader, kPutParams);
  if (!entry.ok()) return entry.error();
  return PutAnswer{.is_new = is_new, .adapter = Describe(*entry.value(), *context.model.catalog)};
}

ApiResult<Json> DeleteAdapter(const std::string& name, std::string_view query,
                              const RequestContext& context) {
  const Status removed = Remove(name, FindQueryParameter(query, "expected_generation"), context);
  if (removed.code() == StatusCode::kNotFound) return AdapterNotFound(name, "");
  if (!removed.ok()) return ChangeError(removed, "");
  return Json(Json::Object{{"id", name}, {"object", "adapter"}, {"deleted", true}});
}

ApiResult<std::string> LoadAdapter(std::string_view body, const RequestContext& context,
                                   AdapterLoader& loader) {
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
  const auto entry = Apply(change, context, loader, kVllmParams);
  if (!entry.ok()) return entry.error();
  return StrCat("Success: LoRA adapter '", change.name, "' added successfully.");
}

ApiResult<std::string> UnloadAdapter(std::string_view body, const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  const std::string name = GetRequired(fields, "lora_name");
  if (!fields.ok()) return *fields.error();
  const Status removed = Remove(name, std::nullopt, context);
  if (removed.code() == StatusCode::kNotFound) return AdapterNotFound(name, "lora_name");
  if (!removed.ok()) return ChangeError(removed, "lora_name");
  return StrCat("Success: LoRA adapter '", name, "' removed successfully.");
}

}  // namespace aril::gateway

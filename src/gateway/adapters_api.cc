#include "gateway/adapters_api.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
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

Json Describe(const CatalogEntry& entry, const Catalog& catalog) {
  const Generation::Description& generation = **entry.generation;
  const NameUsage::Numbers usage = entry.usage->Read();
  Json::Array history;
  for (const PastGeneration& past : entry.history) {
    history.push_back(Json::Object{{"generation", past.digest}, {"since", past.since_unix}});
  }
  return Json::Object{{"id", entry.name},
                      {"object", "adapter"},
                      {"parent", entry.parent},
                      {"source", entry.root},
                      {"generation", generation.digest},
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

struct Change {
  std::string name;
  std::string source;  // or a generation that the name has stood for:
  std::string generation;
  Catalog::Expected expected;
  int64_t ttl_seconds = 0;  // 0: it stays
  std::optional<bool> pin;  // absent: as it is
};

ApiResult<std::shared_ptr<const Generation>> Obtain(const Change& change,
                                                    const CatalogEntryPtr& current,
                                                    AdapterLoader& loader, const Params& params) {
  if (!change.source.empty()) {
    auto loaded = loader.Load(change.source);
    if (!loaded.ok()) return WithParam(FromStatus(loaded.status()), params.source);
    return *std::move(loaded);
  }
  const auto is_asked_for = [&](const PastGeneration& past) {
    return past.digest == change.generation;
  };
  if (current == nullptr || std::ranges::none_of(current->history, is_asked_for)) {
    return ApiError{.status = 404,
                    .message = "The adapter `" + change.name +
                               "` has not stood for that generation; `history` of GET " +
                               "/v1/adapters/" + change.name + " lists those that it has.",
                    .param = "generation",
                    .code = ""};
  }
  auto recalled = loader.Recall(change.generation);
  if (!recalled.ok()) return WithParam(FromStatus(recalled.status()), "generation");
  return *std::move(recalled);
}

// The entry that `tenant` may change under this name, or null.
CatalogEntryPtr Current(const RequestContext& context, const std::string& name) {
  CatalogEntryPtr entry = context.model.catalog->Resolve(context.tenant, name);
  return entry == nullptr || entry->generation == nullptr ? nullptr : entry;
}

// Fills in what the change leaves as it is.
std::optional<ApiError> Complete(const RequestContext& context, Change* change) {
  const CatalogEntryPtr current = Current(context, change->name);
  if (!change->pin.has_value()) change->pin = current != nullptr && current->is_pinned;
  if (*change->pin && change->ttl_seconds != 0) {
    return InvalidField("ttl_seconds",
                        "A pinned adapter stays: give `ttl_seconds` only with `pin`: false.");
  }
  if (!change->source.empty() || !change->generation.empty()) return std::nullopt;
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
  auto generation = Obtain(change, Current(context, change.name), loader, params);
  if (!generation.ok()) return generation.error();
  std::shared_ptr<const void> pin;
  if (*change.pin) {
    auto pinned = generation.value()->Pin();
    if (!pinned.ok()) return ChangeError(pinned.status(), "pin");
    pin = *std::move(pinned);
  }
  const CatalogEntryPtr before = Current(context, change.name);
  auto entry = catalog.Put(
      context.tenant,
      {.name = change.name,
       .parent = catalog.base_name(),
       .root = change.source.empty() && before != nullptr ? before->root : change.source,
       .generation = std::move(generation.value()),
       .expires_unix = change.ttl_seconds == 0 ? 0 : context.unix_seconds + change.ttl_seconds,
       .is_pinned = *change.pin,
       .pin = std::move(pin)},
      change.expected);
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

ApiResult<Change> ParseChange(const std::string& name, const Json& body) {
  JsonFields fields(body);
  Change change = {.name = name,
                   .source = fields.GetString("source", ""),
                   .generation = fields.GetString("generation", ""),
                   .ttl_seconds = fields.GetInt("ttl_seconds", 0, 1, kMaxTtlSeconds)};
  if (fields.Find("expected_generation") != nullptr) {
    change.expected = fields.GetString("expected_generation", "");
  }
  if (fields.Find("pin") != nullptr) change.pin = fields.GetBool("pin", false);
  if (!change.source.empty() && !change.generation.empty()) {
    fields.Fail("source", "and `generation` exclude each other; give one of them");
  } else if (change.source.empty() && change.generation.empty() && !change.pin.has_value()) {
    fields.Fail("source", "or `generation` is required, one of them, or `pin` alone");
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

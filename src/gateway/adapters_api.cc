#include "gateway/adapters_api.h"

#include <utility>

#include "base/strings.h"
#include "gateway/adapter_description.h"
#include "gateway/adapter_errors.h"
#include "gateway/json_fields.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

constexpr ChangeParams kVllmParams = {.name = "lora_name", .source = "lora_path"};
constexpr ChangeParams kPutParams = {.name = "name", .source = "source"};

// A field that must be there and not be empty.
std::string GetRequired(JsonFields& fields, std::string_view name) {
  std::string value = fields.GetString(name, "");
  if (value.empty()) fields.Fail(name, "is required");
  return value;
}

// What would be there.
ApiResult<PutAnswer> DescribeVerified(const AdapterChange& change, const Catalog& catalog,
                                      const Verified& verified) {
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

ApiResult<PutAnswer> DryRun(const AdapterChange& change, const RequestContext& context,
                            AdapterLoader& loader) {
  const Catalog& catalog = *context.model.catalog;
  const Status allowed = catalog.CheckChange(context.tenant, change.name, change.expected);
  if (!allowed.ok()) return ChangeError(allowed, kPutParams.name);
  if (change.source.empty()) return InvalidField("dry_run", "`dry_run` needs a `source`.");
  return DescribeVerified(change, catalog, loader.Verify(change.source));
}

}  // namespace

ApiResult<std::optional<PutAnswer>> PutAdapter(
    const std::string& name, std::string_view query, std::string_view body,
    const RequestContext& context, AdapterLoader& loader, const RemoteLoading& remote,
    std::function<void(const ApiResult<PutAnswer>&)> later) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  const auto change = ParseAdapterChange(name, json.value(), query);
  if (!change.ok()) return change.error();
  const auto dry_run = ReadDryRun(query);
  if (!dry_run.ok()) return dry_run.error();
  if (IsRemote(change.value(), remote)) {
    if (dry_run.value()) {
      const auto done = [change = change.value(), catalog = context.model.catalog,
                         later = std::move(later)](const Verified& verified) {
        later(DescribeVerified(change, *catalog, verified));
      };
      if (auto error = StartTrial(change.value(), context, remote, kPutParams, done)) return *error;
      return std::optional<PutAnswer>();
    }
    if (auto error = StartLoad(change.value(), context, remote, kPutParams)) return *error;
    auto adapter = DescribeAdapter(name, context);
    if (!adapter.ok()) return adapter.error();  // it failed, or was cancelled, this very moment
    return std::optional(PutAnswer{.is_loading = true, .adapter = std::move(adapter.value())});
  }
  if (!change.value().digests.IsEmpty()) {
    return InvalidField("digest", "`digest` and `sha256` are for sources that are fetched.");
  }
  if (dry_run.value()) {
    auto answer = DryRun(change.value(), context, loader);
    if (!answer.ok()) return answer.error();
    return std::optional(std::move(answer.value()));
  }
  const bool is_new = FindAdapter(context, name) == nullptr;
  const auto entry = ApplyChange(change.value(), context, loader, remote, kPutParams);
  if (!entry.ok()) return entry.error();
  return std::optional(PutAnswer{.is_new = is_new,
                                 .adapter = DescribeEntry(*entry.value(), *context.model.catalog)});
}

std::optional<ApiError> CheckName(const std::string& name, const RequestContext& context) {
  const Status allowed =
      context.model.catalog->CheckChange(context.tenant, name, Catalog::Expected());
  if (allowed.ok()) return std::nullopt;
  return ChangeError(allowed, kPutParams.name);
}

ApiResult<PutAnswer> PutUpload(const std::string& name, std::string_view query,
                               StatusOr<GenerationStore::Incoming> upload,
                               const RequestContext& context, const RemoteLoading& remote) {
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
    return DescribeVerified(change.value(), catalog,
                            remote.loader->Verify(*upload, change.value().source));
  }
  const bool is_new = FindAdapter(context, name) == nullptr;
  const auto entry = ApplyUpload(std::move(change.value()), *std::move(upload), context, remote);
  if (!entry.ok()) return entry.error();
  return PutAnswer{.is_new = is_new, .adapter = DescribeEntry(*entry.value(), catalog)};
}

ApiResult<Json> DeleteAdapter(const std::string& name, std::string_view query,
                              const RequestContext& context, const RemoteLoading& remote) {
  const auto parsed = ParseRemoval(query);
  if (!parsed.ok()) return parsed.error();
  const Catalog::Expected& expected = parsed.value();
  Status removed = RemoveAdapter(name, expected, context);
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
                                                  const RemoteLoading& remote,
                                                  std::function<void(const LoadOutcome&)> later) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  const AdapterChange change = {
      .name = GetRequired(fields, "lora_name"),
      .source = GetRequired(fields, "lora_path"),
      .expected = fields.GetBool("load_inplace", false) ? Catalog::Expected() : std::string()};
  if (!fields.ok()) return *fields.error();
  const CatalogEntryPtr taken = FindAdapter(context, change.name);
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
  const auto entry = ApplyChange(change, context, loader, remote, kVllmParams);
  if (!entry.ok()) return entry.error();
  return std::optional(success);
}

ApiResult<std::string> UnloadAdapter(std::string_view body, const RequestContext& context,
                                     const RemoteLoading& remote) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  const std::string name = GetRequired(fields, "lora_name");
  if (!fields.ok()) return *fields.error();
  Status removed = RemoveAdapter(name, std::nullopt, context);
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

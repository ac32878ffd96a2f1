#include "gateway/adapters_api.h"

#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "gateway/json_fields.h"

namespace aril::gateway {
namespace {

Json Describe(const CatalogEntry& entry) {
  const Generation::Description& generation = **entry.generation;
  return Json::Object{{"id", entry.name},
                      {"object", "adapter"},
                      {"parent", entry.parent},
                      {"source", generation.source},
                      {"generation", generation.digest},
                      {"rank", generation.rank},
                      {"bytes", generation.bytes}};
}

ApiError AdapterNotFound(const std::string& name) {
  return {.status = 404,
          .message = "The adapter `" + name + "` does not exist.",
          .param = "lora_name",
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

}  // namespace

Json ListAdapters(const ServedModel& model, std::string_view tenant) {
  Json::Array data;
  for (const CatalogEntryPtr& entry : model.catalog->List(tenant)) {
    if (entry->generation != nullptr) data.push_back(Describe(*entry));
  }
  return Json::Object{{"object", "list"}, {"data", std::move(data)}};
}

ApiResult<Json> DescribeAdapter(const ServedModel& model, std::string_view tenant,
                                const std::string& name) {
  const CatalogEntryPtr entry = model.catalog->Resolve(tenant, name);
  if (entry == nullptr || entry->generation == nullptr) return AdapterNotFound(name);
  return Describe(*entry);
}

ApiResult<std::string> LoadAdapter(std::string_view body, const RequestContext& context,
                                   AdapterLoader& loader) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  const std::string name = GetRequired(fields, "lora_name");
  const std::string path = GetRequired(fields, "lora_path");
  const bool in_place = fields.GetBool("load_inplace", false);
  if (!fields.ok()) return *fields.error();
  if (!IsValidName(name)) {
    return InvalidField("lora_name",
                        "`lora_name` must be 1 to 128 characters of letters, digits and "
                        ". _ / : @ -, starting with a letter or digit.");
  }
  Catalog& catalog = *context.model.catalog;
  // Before the adapter is read; Add decides.
  const CatalogEntryPtr taken = catalog.Resolve(context.tenant, name);
  if (taken != nullptr && (!in_place || taken->generation == nullptr)) {
    return ApiError{.status = 409,
                    .message = taken->generation == nullptr
                                   ? "`" + name + "` is a name of the base model."
                                   : "The adapter `" + name +
                                         "` has already been loaded. To put another one in its "
                                         "place, set `load_inplace` to true.",
                    .param = "lora_name",
                    .code = ""};
  }
  auto generation = loader.Load(path);
  if (!generation.ok()) return WithParam(FromStatus(generation.status()), "lora_path");
  const std::string digest = (**generation)->digest;
  const Status added =
      catalog.Add({.name = name,
                   .parent = catalog.base_name(),
                   .root = path,
                   .generation = *std::move(generation)},
                  in_place ? Catalog::IfTaken::kReplace : Catalog::IfTaken::kRefuse);
  if (!added.ok()) return WithParam(FromStatus(added), "lora_name");
  LogInfo(StrCat("adapter ", name, " is generation ", digest.substr(0, 12), " from ", path));
  return StrCat("Success: LoRA adapter '", name, "' added successfully.");
}

ApiResult<std::string> UnloadAdapter(std::string_view body, const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  const std::string name = GetRequired(fields, "lora_name");
  if (!fields.ok()) return *fields.error();
  Catalog& catalog = *context.model.catalog;
  if (catalog.Resolve(context.tenant, name) == nullptr) return AdapterNotFound(name);
  const Status removed = catalog.Remove(name);
  if (removed.code() == StatusCode::kNotFound) return AdapterNotFound(name);
  if (!removed.ok()) return WithParam(FromStatus(removed), "lora_name");
  LogInfo(StrCat("adapter ", name, " is unloaded"));
  return StrCat("Success: LoRA adapter '", name, "' removed successfully.");
}

}  // namespace aril::gateway

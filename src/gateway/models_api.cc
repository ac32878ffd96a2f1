#include "gateway/models_api.h"

#include <utility>

namespace aril::gateway {
namespace {

Json Describe(const CatalogEntry& entry, const ServedModel& model) {
  return Json::Object{{"id", entry.name},
                      {"object", "model"},
                      {"created", model.created},
                      {"owned_by", "aril"},
                      {"root", entry.root},
                      {"parent", entry.parent.empty() ? Json() : Json(entry.parent)},
                      {"max_model_len", model.max_model_len}};
}

}  // namespace

Json ListModels(const ServedModel& model, std::string_view tenant) {
  Json::Array data;
  for (const CatalogEntryPtr& entry : model.catalog->List(tenant)) {
    data.push_back(Describe(*entry, model));
  }
  return Json::Object{{"object", "list"}, {"data", std::move(data)}};
}

ApiResult<Json> DescribeModel(const ServedModel& model, std::string_view tenant,
                              const std::string& name) {
  const CatalogEntryPtr entry = model.catalog->Resolve(tenant, name);
  if (entry == nullptr) return ModelNotFound(name);
  return Describe(*entry, model);
}

}  // namespace aril::gateway

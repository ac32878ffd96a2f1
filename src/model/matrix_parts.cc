#include "model/matrix_parts.h"

#include "base/strings.h"

namespace aril {

MatrixRole RoleOf(ProjectionGroup group) {
  return group == ProjectionGroup::kDeltaGates ? MatrixRole::kUnrounded : MatrixRole::kLayer;
}

std::string LayerPrefix(int64_t layer) { return StrCat("model.layers.", layer, "."); }

std::vector<MatrixPart> PartsOf(const ModelSpec& spec, int64_t layer, ProjectionGroup group) {
  std::vector<MatrixPart> parts;
  for (const Projection projection : ProjectionsOf(group)) {
    parts.push_back({LayerPrefix(layer) + Site(projection).Path(), spec.OutFeatures(projection)});
  }
  return parts;
}

std::vector<MatrixPart> PartsOfExpert(const ModelSpec& spec, int64_t layer, int64_t expert,
                                      ProjectionGroup group) {
  std::vector<MatrixPart> parts;
  for (const Projection projection : ProjectionsOf(group)) {
    parts.push_back({LayerPrefix(layer) + Site::OfExpert(expert, projection).Path(),
                     spec.OutFeatures(projection)});
  }
  return parts;
}

MatrixPart RouterOf(const ModelSpec& spec, int64_t layer) {
  return {LayerPrefix(layer) + Site::Router().Path(), spec.experts->count};
}

}  // namespace aril

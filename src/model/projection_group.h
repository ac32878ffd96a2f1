// Projections of a layer that share their input, and are one matrix and one LoRA call therefore.

#ifndef ARIL_MODEL_PROJECTION_GROUP_H_
#define ARIL_MODEL_PROJECTION_GROUP_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "spec/model_spec.h"

namespace aril {

// The last three are linear attention's. What decides how a head forgets (b and a) is apart from
// its other inputs: it is small, and kInt8 and kInt4 leave it as it is.
enum class ProjectionGroup { kQkv, kO, kGateUp, kDown, kDeltaIn, kDeltaGates, kDeltaOut };
inline constexpr std::array kAllProjectionGroups = {
    ProjectionGroup::kQkv,     ProjectionGroup::kO,       ProjectionGroup::kGateUp,
    ProjectionGroup::kDown,    ProjectionGroup::kDeltaIn, ProjectionGroup::kDeltaGates,
    ProjectionGroup::kDeltaOut};
inline constexpr size_t kNumProjectionGroups = kAllProjectionGroups.size();

// Those that a layer has as one matrix each: with experts, all but the MLP's.
inline std::vector<ProjectionGroup> ProjectionGroupsOf(const ModelSpec& spec, int64_t layer) {
  using enum ProjectionGroup;
  std::vector<ProjectionGroup> groups = {kQkv, kO};
  if (spec.IsLinear(layer)) groups = {kDeltaIn, kDeltaGates, kDeltaOut};
  if (!spec.experts) groups.insert(groups.end(), {kGateUp, kDown});
  return groups;
}
// Those that any layer has so.
inline std::vector<ProjectionGroup> ProjectionGroupsOf(const ModelSpec& spec) {
  std::vector<ProjectionGroup> groups;
  for (const int64_t layer : spec.LayersOfEachKind()) {
    for (const ProjectionGroup group : ProjectionGroupsOf(spec, layer)) {
      if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
    }
  }
  return groups;
}
// Likewise, with the MLP's, which experts have.
inline std::vector<ProjectionGroup> ProjectionGroupsWithExperts(const ModelSpec& spec) {
  std::vector<ProjectionGroup> groups = ProjectionGroupsOf(spec);
  if (spec.experts) {
    groups.insert(groups.end(), {ProjectionGroup::kGateUp, ProjectionGroup::kDown});
  }
  return groups;
}

// In the order of their columns.
inline std::span<const Projection> ProjectionsOf(ProjectionGroup group) {
  static constexpr Projection kQkv[] = {Projection::kQ, Projection::kK, Projection::kV};
  static constexpr Projection kO[] = {Projection::kO};
  static constexpr Projection kGateUp[] = {Projection::kGate, Projection::kUp};
  static constexpr Projection kDown[] = {Projection::kDown};
  static constexpr Projection kDeltaIn[] = {Projection::kDeltaQkv, Projection::kDeltaZ};
  static constexpr Projection kDeltaGates[] = {Projection::kDeltaB, Projection::kDeltaA};
  static constexpr Projection kDeltaOut[] = {Projection::kDeltaOut};
  switch (group) {
    case ProjectionGroup::kQkv:
      return kQkv;
    case ProjectionGroup::kO:
      return kO;
    case ProjectionGroup::kGateUp:
      return kGateUp;
    case ProjectionGroup::kDown:
      return kDown;
    case ProjectionGroup::kDeltaIn:
      return kDeltaIn;
    case ProjectionGroup::kDeltaGates:
      return kDeltaGates;
    case ProjectionGroup::kDeltaOut:
      return kDeltaOut;
  }
  CHECK(false);
}

inline int64_t InFeatures(const ModelSpec& spec, ProjectionGroup group) {
  return spec.InFeatures(ProjectionsOf(group).front());
}

inline int64_t OutFeatures(const ModelSpec& spec, ProjectionGroup group) {
  int64_t sum = 0;
  for (const Projection projection : ProjectionsOf(group)) sum += spec.OutFeatures(projection);
  return sum;
}

inline int64_t WidestInput(const ModelSpec& spec) {
  int64_t widest = 0;
  for (const ProjectionGroup group : ProjectionGroupsWithExperts(spec)) {
    widest = std::max(widest, InFeatures(spec, group));
  }
  return widest;
}

// Columns of kDeltaIn and, behind them, of kDeltaGates: what linear attention reads.
inline int64_t DeltaColumns(const ModelSpec& spec) {
  return OutFeatures(spec, ProjectionGroup::kDeltaIn) +
         OutFeatures(spec, ProjectionGroup::kDeltaGates);
}

// Where a product's columns lie among the outputs of a row: alone, but for these two.
struct OutputPlace {
  int64_t first_col;
  int64_t stride;
};
inline OutputPlace OutputPlaceOf(const ModelSpec& spec, ProjectionGroup group) {
  if (group == ProjectionGroup::kDeltaIn) return {0, DeltaColumns(spec)};
  if (group == ProjectionGroup::kDeltaGates) {
    return {OutFeatures(spec, ProjectionGroup::kDeltaIn), DeltaColumns(spec)};
  }
  return {0, OutFeatures(spec, group)};
}

// Of routers, too.
inline int64_t WidestOutput(const ModelSpec& spec) {
  int64_t widest = spec.experts ? spec.experts->count : 0;
  if (spec.linear_attention) widest = std::max(widest, DeltaColumns(spec));
  for (const ProjectionGroup group : ProjectionGroupsWithExperts(spec)) {
    widest = std::max(widest, OutFeatures(spec, group));
  }
  return widest;
}

}  // namespace aril

#endif  // ARIL_MODEL_PROJECTION_GROUP_H_

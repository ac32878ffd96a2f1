// Projections of a layer that share their input, and are one matrix and one LoRA call therefore.

#ifndef ARIL_MODEL_PROJECTION_GROUP_H_
#define ARIL_MODEL_PROJECTION_GROUP_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "spec/model_spec.h"

namespace aril {

enum class ProjectionGroup { kQkv, kO, kGateUp, kDown };
inline constexpr std::array kAllProjectionGroups = {
    ProjectionGroup::kQkv, ProjectionGroup::kO, ProjectionGroup::kGateUp, ProjectionGroup::kDown};
inline constexpr size_t kNumProjectionGroups = kAllProjectionGroups.size();
inline constexpr size_t kNumAttentionGroups = 2;  // the first of them

// Those that every layer has as one matrix: with experts, all but the MLP's.
inline std::span<const ProjectionGroup> ProjectionGroupsOf(const ModelSpec& spec) {
  return spec.experts ? std::span(kAllProjectionGroups).first(kNumAttentionGroups)
                      : kAllProjectionGroups;
}

// In the order of their columns.
inline std::span<const Projection> ProjectionsOf(ProjectionGroup group) {
  static constexpr Projection kQkv[] = {Projection::kQ, Projection::kK, Projection::kV};
  static constexpr Projection kO[] = {Projection::kO};
  static constexpr Projection kGateUp[] = {Projection::kGate, Projection::kUp};
  static constexpr Projection kDown[] = {Projection::kDown};
  switch (group) {
    case ProjectionGroup::kQkv:
      return kQkv;
    case ProjectionGroup::kO:
      return kO;
    case ProjectionGroup::kGateUp:
      return kGateUp;
    case ProjectionGroup::kDown:
      return kDown;
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
  for (const ProjectionGroup group : kAllProjectionGroups) {
    widest = std::max(widest, InFeatures(spec, group));
  }
  return widest;
}

// Of routers, too.
inline int64_t WidestOutput(const ModelSpec& spec) {
  int64_t widest = spec.experts ? spec.experts->count : 0;
  for (const ProjectionGroup group : kAllProjectionGroups) {
    widest = std::max(widest, OutFeatures(spec, group));
  }
  return widest;
}

}  // namespace aril

#endif  // ARIL_MODEL_PROJECTION_GROUP_H_

// The matrices that a model's products are with, by the modules of its checkpoint that they consist
// of.

#ifndef ARIL_MODEL_MATRIX_PARTS_H_
#define ARIL_MODEL_MATRIX_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/projection_group.h"
#include "spec/model_spec.h"

namespace aril {

// kUnrounded: small ones that decide about much, which int8 and int4 leave alone.
enum class MatrixRole { kLayer, kUnrounded, kLmHead };

MatrixRole RoleOf(ProjectionGroup group);

// "model.layers.7.", which names of modules in a layer begin with.
std::string LayerPrefix(int64_t layer);

// A matrix [out, in] of a checkpoint, by its module.
struct MatrixPart {
  std::string module;
  int64_t out;
};
// The projections of a group of a layer, or of one of its experts; and its router.
std::vector<MatrixPart> PartsOf(const ModelSpec& spec, int64_t layer, ProjectionGroup group);
std::vector<MatrixPart> PartsOfExpert(const ModelSpec& spec, int64_t layer, int64_t expert,
                                      ProjectionGroup group);
MatrixPart RouterOf(const ModelSpec& spec, int64_t layer);

}  // namespace aril

#endif  // ARIL_MODEL_MATRIX_PARTS_H_

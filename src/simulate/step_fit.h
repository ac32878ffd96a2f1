// A step model from measured steps.

#ifndef ARIL_SIMULATE_STEP_FIT_H_
#define ARIL_SIMULATE_STEP_FIT_H_

#include <vector>

#include "base/status.h"
#include "simulate/step_model.h"

namespace aril::simulate {

struct MeasuredStep {
  StepWork work;
  double seconds = 0;  // above 0
};

struct StepFit {
  StepModel model;         // loads are left as they are
  double worst_error = 0;  // of a measured step: |model - measured| / measured, the largest
};

// The coefficients, none below 0, with the least sum of squared relative errors; free rows are 0
// unless prompts of different lengths were measured. InvalidArgument
// without a step that has something of each kind, or with fewer steps than there are coefficients,
// or where they cannot be told apart.
StatusOr<StepFit> FitStepModel(const std::vector<MeasuredStep>& steps);

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_STEP_FIT_H_

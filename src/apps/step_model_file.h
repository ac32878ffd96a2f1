// Coefficients of step times in a file.

#ifndef ARIL_APPS_STEP_MODEL_FILE_H_
#define ARIL_APPS_STEP_MODEL_FILE_H_

#include <string>

#include "base/status.h"
#include "simulate/step_model.h"

namespace aril {

// `otherwise` if there is no path. An error names the file.
StatusOr<simulate::StepModel> ReadStepModelFile(const std::string& path,
                                                const simulate::StepModel& otherwise);

}  // namespace aril

#endif  // ARIL_APPS_STEP_MODEL_FILE_H_

#include "apps/step_model_file.h"

#include "base/file.h"

namespace aril {

StatusOr<simulate::StepModel> ReadStepModelFile(const std::string& path,
                                                const simulate::StepModel& otherwise) {
  if (path.empty()) return otherwise;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 20));
  auto model = simulate::ParseStepModel(text);
  if (!model.ok()) return Annotate(model.status(), path);
  return model;
}

}  // namespace aril

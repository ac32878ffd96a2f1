// ParseStepModel on any text: what it takes gives steps of positive, finite time.

#include <string_view>

#include "base/check.h"
#include "simulate/step_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model =
      aril::simulate::ParseStepModel(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!model.ok()) return 0;
  const aril::simulate::StepWork work = {.prefill_tokens = 512,
                                         .decodes = 32,
                                         .context_tokens = 32 * 2048,
                                         .adapter_bytes = int64_t{1} << 30};
  CHECK(model->Step(work) >= aril::Duration(0));
  CHECK(model->Load(int64_t{1} << 30) >= aril::Duration(0));
  CHECK_GE(model->Curve(32, 2048).FlatBatch(1.0, 32), 1);
  return 0;
}

// ParseLoraConfig and ResolveLora on any JSON.

#include <cmath>
#include <string_view>

#include "base/check.h"
#include "spec/lora_spec.h"

namespace {

void CheckResolved(const aril::LoraConfig& config, bool fused_modules,
                   const aril::ModuleNaming& naming) {
  aril::ModelSpec model;
  model.num_layers = 12;  // two digits in some names
  model.fused_modules = fused_modules;
  const auto spec = aril::ResolveLora(config, model, naming);
  if (!spec.ok()) return;
  CHECK(spec->MaxRank() >= 1 || spec->replaces_embedding || spec->replaces_lm_head);
  CHECK_LE(spec->MaxRank(), aril::kMaxLoraRank);
  for (const auto& layer : spec->layers) {
    for (const aril::LoraModule& module : layer) {
      CHECK(std::isfinite(static_cast<float>(module.scale)));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = aril::Json::Parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!json.ok()) return 0;
  const auto config = aril::ParseLoraConfig(*json);
  if (!config.ok()) return 0;
  CheckResolved(*config, false, aril::kTextNaming);
  CheckResolved(*config, true, aril::kTextNaming);
  CheckResolved(*config, false, {"language_model.model", "language_model.lm_head"});
  CheckResolved(*config, false, {"model.language_model", "lm_head"});
  return 0;
}

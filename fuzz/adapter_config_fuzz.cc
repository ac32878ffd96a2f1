// ParseLoraConfig and ResolveLora on any JSON.

#include <cmath>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "spec/lora_spec.h"

namespace {

aril::ModelSpec Model() {
  aril::ModelSpec model;
  model.num_layers = 12;  // two digits in some names
  model.vocab_size = 1000;
  return model;
}

void CheckResolved(const aril::LoraConfig& config, const aril::ModelSpec& model,
                   const aril::ModuleNaming& naming) {
  const auto spec = aril::ResolveLora(config, model, naming);
  if (!spec.ok()) return;
  CHECK(spec->MaxRank() >= 1 || spec->replaces_embedding || spec->replaces_lm_head);
  CHECK_LE(spec->MaxRank(), aril::kMaxLoraRank);
  // What invokes an adapter does so wherever it stands last.
  std::vector<int32_t> prompt = spec->invocation_tokens;
  for (const int32_t token : prompt) CHECK(token >= 0 && token < model.vocab_size);
  prompt.insert(prompt.end(), spec->invocation_tokens.begin(), spec->invocation_tokens.end());
  CHECK(spec->FirstToken(prompt) == static_cast<int64_t>(spec->invocation_tokens.size()));
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
  CheckResolved(*config, Model(), aril::kTextNaming);
  CheckResolved(*config, Model(), {"language_model.model", "language_model.lm_head"});
  CheckResolved(*config, Model(), {"model.language_model", "lm_head"});
  aril::ModelSpec fused = Model();
  fused.fused_modules = true;
  CheckResolved(*config, fused, aril::kTextNaming);
  aril::ModelSpec mixture = Model();
  mixture.experts = aril::ExpertsSpec{.count = 11, .per_token = 2};
  using aril::ExpertsNaming;
  for (const ExpertsNaming experts : {ExpertsNaming::kModules, ExpertsNaming::kMixtralModules,
                                      ExpertsNaming::kParameters, ExpertsNaming::kGptOss}) {
    CheckResolved(*config, mixture, {"model", "lm_head", experts});
  }
  return 0;
}

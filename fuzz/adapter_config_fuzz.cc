// ParseLoraConfig and ResolveLora on any JSON.

#include <cmath>
#include <string_view>

#include "base/check.h"
#include "spec/lora_spec.h"

namespace {

aril::ModelSpec SomeModel() {
  aril::ModelSpec model;
  model.num_layers = 12;  // two digits in some names
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = aril::Json::Parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!json.ok()) return 0;
  const auto config = aril::ParseLoraConfig(*json);
  if (!config.ok()) return 0;
  const auto spec = aril::ResolveLora(*config, SomeModel());
  if (!spec.ok()) return 0;
  CHECK_GE(spec->MaxRank(), 1);
  CHECK_LE(spec->MaxRank(), aril::kMaxLoraRank);
  for (const auto& layer : spec->layers) {
    for (const aril::LoraModule& module : layer) {
      CHECK(std::isfinite(static_cast<float>(module.scale)));
    }
  }
  return 0;
}

// ParseModelSpec on any JSON (its member "generation_config" stands for the other file): what it
// accepts must be sane enough to allocate by. Its members "modules" and "pooling" are what
// ParseEmbeddingSpec reads; ParseClassifierSpec reads the whole.

#include <cmath>
#include <iterator>
#include <string_view>

#include "base/check.h"
#include "spec/classifier_spec.h"
#include "spec/embedding_spec.h"
#include "spec/model_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config =
      aril::Json::Parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!config.ok()) return 0;
  if (const aril::Json* const modules = config->Find("modules")) {
    (void)aril::ParseEmbeddingSpec(*modules, [&](const std::string&) -> aril::StatusOr<aril::Json> {
      const aril::Json* const pooling = config->Find("pooling");
      const bool is_object = pooling != nullptr && pooling->AsObject() != nullptr;
      return is_object ? aril::StatusOr<aril::Json>(*pooling) : aril::NotFound("no object");
    });
  }
  const auto classifier = aril::ParseClassifierSpec(*config, {.vocab_size = 100});
  for (int64_t id = 0; classifier.ok() && id < aril::kMaxClassLabels; ++id) {
    CHECK_LE(classifier->LabelOf(id).size(), aril::kMaxLabelBytes);
  }
  const auto spec = aril::ParseModelSpec(*config, config->Find("generation_config"));
  if (!spec.ok()) return 0;
  CHECK_GE(spec->num_layers, 1);
  CHECK_EQ(spec->num_heads % spec->num_kv_heads, 0);
  CHECK_EQ(spec->head_dim % 2, 0);
  for (const int64_t layer : spec->LayersOfEachKind()) {
    for (const aril::LinearModule& module : spec->LinearModules(layer)) {
      const int64_t in = spec->InFeatures(module);
      const int64_t out = spec->OutFeatures(module);
      CHECK_GE(in, 1);
      CHECK_GE(out, 1);
      CHECK_LT(in, int64_t{1} << 21);
      CHECK_LT(out, int64_t{1} << 22);  // two or three may be one module
    }
  }
  CHECK_EQ(spec->linear_attention.has_value(), !spec->linear_layers.empty());
  CHECK_GE(spec->NumLayers(false), 1);
  if (spec->experts) {
    CHECK(spec->experts->count >= 1 && spec->experts->count <= 1024);
    CHECK(spec->experts->per_token >= 1 && spec->experts->per_token <= spec->experts->count);
  }
  CHECK(spec->full_attention.empty() || std::ssize(spec->full_attention) == spec->num_layers);
  CHECK(spec->full_attention.empty() || spec->sliding_window.has_value());
  CHECK_GE(spec->sliding_window.value_or(1), 1);
  CHECK(spec->AttentionScale() > 0 && spec->AttentionScale() <= 1e4);
  CHECK(spec->rope.attention_factor > 0 && spec->rope.attention_factor < 200);
  CHECK_GE(spec->max_position_embeddings, 1);
  CHECK_LE(spec->max_position_embeddings, int64_t{1} << 24);
  const bool has_factors = spec->rope.scaling == aril::RopeSpec::Scaling::kLongRope;
  CHECK_EQ(spec->rope.wavelength_factors.empty(), !has_factors);
  CHECK_LE(std::ssize(spec->rope.wavelength_factors), spec->head_dim / 2);
  const auto num_choices = std::ssize(spec->other_rope_layers);
  CHECK_EQ(num_choices, spec->other_rope ? spec->num_layers : 0);
  const double residual = spec->residual_multiplier;
  for (const double value : {spec->rms_norm_eps / (residual * residual),
                             spec->embedding_multiplier / residual, spec->logits_scaling}) {
    CHECK(std::isnormal(static_cast<float>(value)));
  }
  for (const auto cap : {spec->attn_softcap, spec->logit_softcap}) CHECK(cap.value_or(1) > 0);
  for (const int32_t id : spec->eos_token_ids) CHECK_LT(id, spec->vocab_size);
  return 0;
}

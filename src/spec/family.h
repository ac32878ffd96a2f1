// The model families of transformers that Aril serves, and how their configuration classes differ.

#ifndef ARIL_SPEC_FAMILY_H_
#define ARIL_SPEC_FAMILY_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace aril::internal {

// Which attention projections have a bias, and whether config.json decides.
enum class BiasRule {
  kAttentionBias,  // "attention_bias": all four or none
  kQkv,            // q, k and v always, o never
  kNone,
};

// What sliding-window attention a family has.
enum class WindowRule {
  kNone,
  kAllLayers,         // "sliding_window": on every layer, or null
  kUseFlagMustBeOff,  // Qwen: "use_sliding_window" turns it on for some layers; not supported
};

// The defaults are those of the configuration class in transformers (4.40 to 5.x agree on them).
struct Family {
  std::string_view architecture;
  std::string_view model_type;
  int64_t default_max_position_embeddings;
  // For a missing "num_key_value_heads"; 0 (and an explicit null): as many as attention heads.
  int64_t default_num_kv_heads;
  // For a missing "head_dim"; 0: hidden_size / num_attention_heads.
  int64_t default_head_dim;
  BiasRule bias;
  WindowRule window;
  // For a missing "sliding_window"; 0: none.
  int64_t default_sliding_window;
  bool qk_norm;
  std::optional<int32_t> default_bos_token_id;
  std::optional<int32_t> default_eos_token_id;
};

// The family that config.json's "architectures" names, or where that is absent "model_type".
StatusOr<const Family*> FindFamily(const Json& config);

}  // namespace aril::internal

#endif  // ARIL_SPEC_FAMILY_H_

// What a base model *is*: its config.json, without weights.

#ifndef ARIL_SPEC_MODEL_SPEC_H_
#define ARIL_SPEC_MODEL_SPEC_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "spec/projection.h"
#include "spec/quantized_spec.h"
#include "tensor/dtype.h"

namespace aril {

// Where a layer's MLP is a mixture of experts (Shazeer et al. 2017): of so many MLPs, each token
// goes through those few that the layer's router gives the highest probabilities, and the sum of
// what they give, weighted by these, is the layer's.
struct ExpertsSpec {
  int64_t count = 0;
  int64_t per_token = 0;  // 1 … count
  // The probabilities of a token's experts are divided by their sum.
  bool normalized = false;
  // As in gpt-oss: files have each layer's experts in one tensor, with a row for each input, and
  // gate and up in turns; and products have biases, the router's too.
  bool is_gpt_oss = false;
};

// What some layers have in place of attention: a gated delta rule (kernels/gated_delta; Qwen3.5).
struct LinearAttentionSpec {
  int64_t num_key_heads = 0;
  int64_t num_value_heads = 0;  // a multiple of num_key_heads
  int64_t key_dim = 0;          // of a head
  int64_t value_dim = 0;
  int64_t conv_size = 0;  // tokens that its convolution sees

  int64_t key_size() const { return num_key_heads * key_dim; }
  int64_t value_size() const { return num_value_heads * value_dim; }
  int64_t num_channels() const { return 2 * key_size() + value_size(); }  // that are convolved
};

// Of the gate in the MLP (kernels/activation).
enum class MlpActivation : uint8_t { kSilu, kGeluTanh, kClampedSwiglu };

struct RopeSpec {
  // kNoRotation: nothing is rotated, whatever the position (SmolLM3's NoPE layers).
  enum class Scaling { kNone, kLinear, kLlama3, kYarn, kLongRope, kNoRotation };
  double theta = 10000.0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;  // of all but LongRoPE
  // Llama 3.1 only (transformers: modeling_rope_utils, _compute_llama3_parameters).
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  // And of YaRN (Peng et al. 2023), whose betas are turns in so many positions.
  int64_t original_max_position_embeddings = 8192;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  // Whether the dimensions between which YaRN interpolates are rounded outwards.
  bool truncate = true;
  // A head's first 2 · num_pairs dimensions are rotated; absent: all.
  std::optional<int64_t> num_pairs;
  // LongRoPE only (Ding et al. 2024; Phi-3): [num_pairs], what each wavelength is longer by in the
  // first original_max_position_embeddings positions.
  std::vector<double> wavelength_factors;
  // By which what is rotated of queries and keys is multiplied, in both of them.
  double attention_factor = 1.0;
};

struct ModelSpec {
  std::string architecture;  // "LlamaForCausalLM", …
  // Else it is a decoder alone, which makes embeddings and no text (MistralModel).
  bool has_lm_head = true;
  // The model also sees: its text model is served (Gemma3ForConditionalGeneration).
  bool is_multimodal = false;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  RopeSpec rope;
  // Of the layers that have another one: those with a window (Gemma 3), or without RoPE (SmolLM3).
  std::optional<RopeSpec> other_rope;
  std::vector<bool> other_rope_layers;  // [num_layers] where there is one, else empty
  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // q_proj, k_proj, v_proj have a bias (Qwen2; Llama with attention_bias)
  bool o_bias = false;    // o_proj has a bias (Llama with attention_bias)
  bool qk_norm = false;   // RMSNorm over head_dim on q and k before RoPE (Qwen3, Gemma 3)
  // q_proj gives each head a query and then as much more, whose sigmoid what the head's attention
  // gives is multiplied by (Qwen3.5).
  bool gated_queries = false;
  bool attention_sinks = false;  // a score of each head's beside those of keys (gpt-oss)
  // Files have q, k and v as one module, and gate and up as another (Phi-3).
  bool fused_modules = false;
  // A query at position i of a layer with a window sees keys j with i - j < sliding_window.
  std::optional<int64_t> sliding_window;
  // [num_layers], the layers that see all keys all the same (Gemma 2, 3); empty: none does.
  std::vector<bool> full_attention;
  std::optional<LinearAttentionSpec> linear_attention;
  std::vector<bool> linear_layers;  // [num_layers] where there is one, else empty
  MlpActivation activation = MlpActivation::kSilu;
  // Each has intermediate_size (Mixtral, Qwen3-MoE, gpt-oss).
  std::optional<ExpertsSpec> experts;
  // Gemma, Qwen3.5: weights of norms are stored as what they differ from 1 by. Gemma: embeddings
  // are multiplied by sqrt(hidden_size).
  bool unit_offset_norms = false;
  bool scaled_embedding = false;
  // Gemma 2, 3: what attention and the MLP give is normed, too, before it is added.
  bool output_norms = false;
  // Granite: of embeddings, and of what attention and the MLP give before it is added; and what
  // logits are divided by.
  double embedding_multiplier = 1;
  double residual_multiplier = 1;
  double logits_scaling = 1;
  // By which attention's scores are multiplied; absent: 1 / sqrt(head_dim).
  std::optional<double> attention_multiplier;
  // x becomes cap · tanh(x / cap): of the scores, so scaled, and of the logits (Gemma 2).
  std::optional<double> attn_softcap;
  std::optional<double> logit_softcap;
  // Of a checkpoint that is quantized.
  std::optional<QuantizedSpec> quantized;
  // The dtype that config.json states for the file; nullopt if it states none.
  std::optional<DType> dtype;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;  // of the vocabulary; of interest to classifiers only

  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }

  bool HasWindow(int64_t layer) const {
    return sliding_window &&
           (full_attention.empty() || !full_attention[static_cast<size_t>(layer)]);
  }
  bool HasOtherRope(int64_t layer) const {  // whether its RoPE is other_rope
    return other_rope && other_rope_layers[static_cast<size_t>(layer)];
  }
  // Whether it has linear attention, and no K and V.
  bool IsLinear(int64_t layer) const {
    return linear_attention && linear_layers[static_cast<size_t>(layer)];
  }
  // Of all layers, those that have it, or have not; and of the layers of its kind, how many come
  // before one.
  int64_t NumLayers(bool is_linear) const;
  int64_t IndexInKind(int64_t layer) const;
  // By which attention's scores are multiplied.
  double AttentionScale() const;

  // Sites of a layer are numbered below this.
  int64_t num_sites() const { return Site::Count(experts ? experts->count : 0); }
  // Of a decoder layer, those that an adapter may target, in the order of their sites.
  std::vector<LinearModule> LinearModules(int64_t layer) const;
  // A layer of each kind: those of a kind have the same modules.
  std::vector<int64_t> LayersOfEachKind() const;
  // Whether the layer has the projection, but for those of experts.
  bool Has(int64_t layer, Projection projection) const;

  // Input and output width, of a site that there is; of a module, its sites' outputs together.
  int64_t InFeatures(Site site) const;
  int64_t OutFeatures(Site site) const;
  int64_t InFeatures(const LinearModule& module) const { return InFeatures(module.first); }
  int64_t OutFeatures(const LinearModule& module) const;
};

// ModelSpec::LinearModules of all layers, made once for each kind.
class LayerModules {
 public:
  explicit LayerModules(const ModelSpec& spec);  // which need not stay

  const std::vector<LinearModule>& operator[](int64_t layer) const {
    const bool is_linear = !linear_layers_.empty() && linear_layers_[static_cast<size_t>(layer)];
    return of_kind_[is_linear ? 1 : 0];
  }

 private:
  std::vector<bool> linear_layers_;
  std::array<std::vector<LinearModule>, 2> of_kind_;  // without linear attention, and with it
};

// Reads config.json and, where present, generation_config.json (which wins for eos_token_id).
// Refuses, naming the field, every setting that would change the result and that Aril does not
// implement.
StatusOr<ModelSpec> ParseModelSpec(const Json& config, const Json* generation_config);
// The same of a model's folder. Where it has weights, their names say, too, whether there is an
// lm_head: the class in an embedding model's config.json may have one all the same.
StatusOr<ModelSpec> LoadModelSpec(const std::string& model_dir);

}  // namespace aril

#endif  // ARIL_SPEC_MODEL_SPEC_H_

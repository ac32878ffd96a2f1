// config.json and generation_config.json of a base model.

#include "spec/model_spec.h"

#include <cmath>

#include "base/file.h"
#include "base/strings.h"
#include "spec/family.h"
#include "spec/fields.h"
#include "spec/layer_windows.h"
#include "spec/linear_attention.h"
#include "spec/module_naming.h"
#include "spec/rope_spec.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

using internal::BadField;
using internal::BiasRule;
using internal::DefaultSizes;
using internal::ExpertsRules;
using internal::Family;
using internal::FindField;
using internal::GemmaRules;
using internal::ReadBool;
using internal::ReadInt;
using internal::ReadNumber;
using internal::ReadString;
using internal::TextModel;
using internal::UnsupportedField;

// Far beyond any published model, and small enough that products of any three fit int64.
constexpr int64_t kMaxVocabSize = int64_t{1} << 22;
constexpr int64_t kMaxHiddenSize = int64_t{1} << 17;
constexpr int64_t kMaxIntermediateSize = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxExperts = 1024;
// Of all layers: each has two matrices in a mapping of its own, of which Linux has 65,530 by
// default.
constexpr int64_t kMaxAllExperts = 16384;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr int64_t kMaxTokenId = INT32_MAX;
// Of Granite's multipliers: products of two and squares stay far from the ends of float32.
constexpr double kMinMultiplier = 1e-4;
constexpr double kMaxMultiplier = 1e4;

// What stands here must be off: each changes the result and none is implemented.
constexpr std::string_view kMustBeOff[] = {
    "mlp_bias",                     // Llama
    "text_config",                  // of a text model itself
    "per_layer_config",             // transformers 5: layers of different shapes
    "use_bidirectional_attention",  // Gemma, as an embedding model
};

constexpr std::string_view kAttnSoftcap = "attn_logit_softcapping";

constexpr std::string_view kTextConfig = "text_config";

Status CheckUnsupported(const Json& config, bool has_text_config) {
  for (const std::string_view key : kMustBeOff) {
    if (has_text_config && key == kTextConfig) continue;
    if (!internal::IsOff(config, key)) return UnsupportedField(config, key, "null or absent");
  }
  // Embedding models with code of their own (gte-Qwen2).
  ASSIGN_OR_RETURN(const bool is_causal, internal::ReadBool(config, "is_causal", true));
  return is_causal ? OkStatus() : UnsupportedField(config, "is_causal", "true or absent");
}

// Where a model says what may stand outside of its text model's object, too.
const Json& Outermost(const Json& config, const Json& text, std::string_view key) {
  return FindField(config, key) != nullptr ? config : text;
}

Status ReadHeads(const Json& config, const Family& family, ModelSpec* spec) {
  const bool is_absent = config.Find("num_key_value_heads") == nullptr;  // as opposed to null
  const int64_t default_kv_heads =
      is_absent && family.default_num_kv_heads != 0 ? family.default_num_kv_heads : spec->num_heads;
  ASSIGN_OR_RETURN(spec->num_kv_heads,
                   ReadInt(config, {"num_key_value_heads", 1, kMaxHeads, default_kv_heads}));
  if (spec->num_heads % spec->num_kv_heads != 0) {
    return BadField(config, "num_key_value_heads",
                    StrCat("a divisor of num_attention_heads, which is ", spec->num_heads,
                           " (found ", spec->num_kv_heads, ")"));
  }
  int64_t default_head_dim = family.default_head_dim;
  if (default_head_dim == 0) {
    if (FindField(config, "head_dim") == nullptr && spec->hidden_size % spec->num_heads != 0) {
      return BadField(config, "hidden_size",
                      StrCat("a multiple of num_attention_heads, which is ", spec->num_heads));
    }
    default_head_dim = spec->hidden_size / spec->num_heads;
  }
  ASSIGN_OR_RETURN(spec->head_dim, ReadInt(config, {"head_dim", 1, kMaxHeadDim, default_head_dim}));
  if (spec->head_dim % 2 != 0 || spec->head_dim > kMaxHeadDim) {
    return BadField(config, "head_dim",
                    StrCat("an even number up to ", kMaxHeadDim, " (found ", spec->head_dim, ")"));
  }
  return OkStatus();
}

// Versions of transformers write it by either name.
StatusOr<int64_t> ReadNumExperts(const Json& config, int64_t fallback) {
  constexpr std::string_view kName = "num_experts", kOtherName = "num_local_experts";
  ASSIGN_OR_RETURN(const int64_t other, ReadInt(config, {kOtherName, 1, kMaxExperts, fallback}));
  ASSIGN_OR_RETURN(const int64_t count, ReadInt(config, {kName, 1, kMaxExperts, other}));
  if (FindField(config, kOtherName) != nullptr && other != count) {
    return BadField(config, kOtherName, StrCat(count, ", as ", kName, " is"));
  }
  return count;
}

Status ReadExperts(const Json& config, const ExpertsRules& rules, ModelSpec* spec) {
  ExpertsSpec experts{.normalized = true};
  ASSIGN_OR_RETURN(
      spec->intermediate_size,
      ReadInt(config, {rules.size_field, 1, kMaxIntermediateSize, rules.default_size}));
  ASSIGN_OR_RETURN(experts.count, ReadNumExperts(config, rules.default_count));
  constexpr std::string_view kPerToken = "num_experts_per_tok";
  ASSIGN_OR_RETURN(experts.per_token,
                   ReadInt(config, {kPerToken, 1, kMaxExperts, rules.default_per_token}));
  if (experts.per_token > experts.count) {
    return BadField(config, kPerToken,
                    StrCat("at most the number of experts, which is ", experts.count));
  }
  if (rules.chooses) {
    ASSIGN_OR_RETURN(experts.normalized, ReadBool(config, "norm_topk_prob", false));
    if (!internal::IsOff(config, "mlp_only_layers")) {
      return UnsupportedField(config, "mlp_only_layers", "[]: experts in all layers");
    }
    ASSIGN_OR_RETURN(const int64_t step,
                     ReadInt(config, {"decoder_sparse_step", 1, kMaxLayers, 1}));
    if (step != 1) {
      return UnsupportedField(config, "decoder_sparse_step", "1: experts in all layers");
    }
  }
  spec->experts = experts;
  return OkStatus();
}

Status ReadSizes(const Json& config, const Family& family, ModelSpec* spec) {
  const auto read = [&](std::string_view key, int64_t max,
                        int64_t DefaultSizes::*member) -> StatusOr<int64_t> {
    std::optional<int64_t> fallback;
    if (family.default_sizes) fallback = (*family.default_sizes).*member;
    return ReadInt(config, {key, 1, max, fallback});
  };
  ASSIGN_OR_RETURN(spec->vocab_size, read("vocab_size", kMaxVocabSize, &DefaultSizes::vocab_size));
  ASSIGN_OR_RETURN(spec->hidden_size,
                   read("hidden_size", kMaxHiddenSize, &DefaultSizes::hidden_size));
  if (family.experts) {
    RETURN_IF_ERROR(ReadExperts(config, *family.experts, spec));
  } else {
    ASSIGN_OR_RETURN(spec->intermediate_size, read("intermediate_size", kMaxIntermediateSize,
                                                   &DefaultSizes::intermediate_size));
  }
  ASSIGN_OR_RETURN(spec->num_layers,
                   read("num_hidden_layers", kMaxLayers, &DefaultSizes::num_layers));
  ASSIGN_OR_RETURN(spec->num_heads,
                   read("num_attention_heads", kMaxHeads, &DefaultSizes::num_heads));
  ASSIGN_OR_RETURN(spec->max_position_embeddings,
                   ReadInt(config, {"max_position_embeddings", 1, kMaxPositions,
                                    family.default_max_position_embeddings}));
  if (spec->experts && spec->experts->count * spec->num_layers > kMaxAllExperts) {
    return BadField(config, "num_hidden_layers",
                    StrCat("at most ", kMaxAllExperts, " experts in all layers, of which each has ",
                           spec->experts->count));
  }
  return ReadHeads(config, family, spec);
}

Status ReadBias(const Json& config, const Family& family, ModelSpec* spec) {
  // Where transformers has no such field, it may only repeat what the architecture does anyway.
  const bool built_in = family.bias == BiasRule::kQkv || family.default_attention_bias;
  ASSIGN_OR_RETURN(const bool attention_bias, ReadBool(config, "attention_bias", built_in));
  if (family.bias != BiasRule::kAttentionBias && attention_bias != built_in) {
    return UnsupportedField(config, "attention_bias",
                            StrCat(Json(built_in).Dump(), " for ", family.architecture));
  }
  spec->qkv_bias = attention_bias;
  spec->o_bias = attention_bias && family.bias == BiasRule::kAttentionBias;
  return OkStatus();
}

// A number above 0, or null for none; `fallback` where it is absent, 0 for none.
StatusOr<std::optional<double>> ReadSoftcap(const Json& config, std::string_view key,
                                            double fallback) {
  const Json* value = config.Find(key);
  if (value != nullptr && value->is_null()) return std::optional<double>();
  if (value == nullptr && fallback == 0) return std::optional<double>();
  ASSIGN_OR_RETURN(const double cap, ReadNumber(config, {key, 1e-3, 1e6, fallback}));
  return std::optional<double>(cap);
}

// The activation of the MLP's gate; transformers knows SiLU by two names.
Status ReadSilu(const Json& config) {
  ASSIGN_OR_RETURN(const std::string activation, ReadString(config, "hidden_act", "silu"));
  if (activation == "silu" || activation == "swish") return OkStatus();
  return UnsupportedField(config, "hidden_act", "\"silu\"");
}

Status ReadGelu(const Json& config, const GemmaRules& rules, ModelSpec* spec) {
  constexpr std::string_view kGeluTanh = "gelu_pytorch_tanh";
  ASSIGN_OR_RETURN(const std::string activation,
                   ReadString(config, rules.activation_field, kGeluTanh));
  const auto unsupported = [&](std::string_view field) {
    return UnsupportedField(config, field, StrCat("\"", kGeluTanh, "\""));
  };
  // The first files of Gemma say "gelu", and mean the other one.
  const bool is_first = rules.activation_field == "hidden_act";
  if (activation != kGeluTanh && !(is_first && activation == "gelu")) {
    return unsupported(rules.activation_field);
  }
  // Versions of transformers disagree whether it counts there.
  ASSIGN_OR_RETURN(const std::string other, ReadString(config, "hidden_activation", kGeluTanh));
  if (other != kGeluTanh) return unsupported("hidden_activation");
  spec->activation = MlpActivation::kGeluTanh;
  return OkStatus();
}

Status ReadGemma(const Json& config, const GemmaRules& rules, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadGelu(config, rules, spec));
  spec->unit_offset_norms = true;
  spec->scaled_embedding = true;
  spec->output_norms = rules.output_norms;
  if (!rules.query_scalar_field.empty()) {
    ASSIGN_OR_RETURN(const double scalar,
                     ReadNumber(config, {rules.query_scalar_field, 1e-3, 1e6, 256.0}));
    spec->attention_multiplier = 1 / std::sqrt(scalar);
  }
  if (rules.attn_softcap == 0 && !internal::IsOff(config, kAttnSoftcap)) {
    return UnsupportedField(config, kAttnSoftcap, "null or absent for " + spec->architecture);
  }
  ASSIGN_OR_RETURN(spec->attn_softcap, ReadSoftcap(config, kAttnSoftcap, rules.attn_softcap));
  // The class that also sees does not apply it.
  if (spec->is_multimodal && !internal::IsOff(config, rules.logit_softcap_field)) {
    return UnsupportedField(config, rules.logit_softcap_field,
                            "null or absent for " + spec->architecture);
  }
  if (!rules.logit_softcap_field.empty()) {
    ASSIGN_OR_RETURN(spec->logit_softcap,
                     ReadSoftcap(config, rules.logit_softcap_field, rules.logit_softcap));
  }
  return OkStatus();
}

Status ReadMultipliers(const Json& config, ModelSpec* spec) {
  const auto read = [&](std::string_view key) -> StatusOr<double> {
    const Json* value = config.Find(key);
    // Versions of transformers disagree on what null means.
    if (value != nullptr && value->is_null()) return BadField(config, key, "a number");
    return ReadNumber(config, {key, kMinMultiplier, kMaxMultiplier, 1.0});
  };
  ASSIGN_OR_RETURN(spec->embedding_multiplier, read("embedding_multiplier"));
  ASSIGN_OR_RETURN(spec->residual_multiplier, read("residual_multiplier"));
  ASSIGN_OR_RETURN(spec->logits_scaling, read("logits_scaling"));
  ASSIGN_OR_RETURN(spec->attention_multiplier, read("attention_multiplier"));
  return OkStatus();
}

// Versions of transformers disagree on what a config.json without RoPE's parameters means; and
// neither of the two numbers is another one in any published file.
Status ReadGptOss(const Json& config, ModelSpec* spec) {
  constexpr std::pair<std::string_view, double> kConstants[] = {{"swiglu_alpha", 1.702},
                                                                {"swiglu_limit", 7.0}};
  for (const auto& [key, value] : kConstants) {
    ASSIGN_OR_RETURN(const double found, ReadNumber(config, {key, 0, 1e6, value}));
    if (found != value) return UnsupportedField(config, key, Json(value).Dump());
  }
  if (internal::IsOff(config, "rope_scaling") && internal::IsOff(config, "rope_parameters")) {
    return BadField(config, "rope_scaling", "an object, as in every gpt-oss");
  }
  spec->activation = MlpActivation::kClampedSwiglu;
  spec->attention_sinks = true;
  spec->experts->is_gpt_oss = true;
  return OkStatus();
}

Status ReadRope(const Json& config, const Family& family, ModelSpec* spec) {
  if (family.gemma && family.gemma->two_ropes) {
    ASSIGN_OR_RETURN(const internal::TwoRopes ropes,
                     internal::ParseTwoRopes(config, spec->max_position_embeddings));
    spec->rope = ropes.full;
    spec->other_rope = ropes.windowed;
    for (int64_t layer = 0; layer < spec->num_layers; ++layer) {
      spec->other_rope_layers.push_back(spec->HasWindow(layer));
    }
  } else if (family.long_rope) {
    ASSIGN_OR_RETURN(spec->rope, internal::ParsePhi3Rope(config, *spec));
  } else {
    ASSIGN_OR_RETURN(spec->rope, internal::ParseRopeSpec(config, *spec,
                                                         {.theta = family.default_rope_theta,
                                                          .part = family.default_rope_part}));
  }
  if (family.layers_without_rope) {
    ASSIGN_OR_RETURN(spec->other_rope_layers,
                     internal::LayersWithoutRope(config, spec->num_layers));
    spec->other_rope = {.scaling = RopeSpec::Scaling::kNoRotation};
  }
  spec->max_position_embeddings = internal::PositionsOf(spec->rope, spec->max_position_embeddings);
  return OkStatus();
}

// Of a model that also sees, versions of transformers disagree whether what it says of itself or of
// its text model counts. Those that write true beside false (defaults, of Mistral3) do not tie a
// model that has an lm_head.
Status ReadTied(const Json& config, const TextModel& text, ModelSpec* spec) {
  constexpr std::string_view kTied = "tie_word_embeddings";
  const bool fallback = text.family->default_tied;
  ASSIGN_OR_RETURN(const bool inside, ReadBool(*text.config, kTied, fallback));
  ASSIGN_OR_RETURN(const bool outside, ReadBool(config, kTied, inside));
  const bool is_said_inside = FindField(*text.config, kTied) != nullptr;
  if (is_said_inside && inside && !outside) {
    return BadField(config, kTied, StrCat("true, as in ", kTextConfig));
  }
  spec->tie_word_embeddings = is_said_inside ? inside : outside;
  return OkStatus();
}

Status ReadDType(const Json& config, ModelSpec* spec) {
  const std::string_view key = FindField(config, "dtype") ? "dtype" : "torch_dtype";
  ASSIGN_OR_RETURN(const std::string name, ReadString(config, key, "auto"));
  if (name == "float32" || name == "float") {
    spec->dtype = DType::kF32;
  } else if (name == "bfloat16") {
    spec->dtype = DType::kBF16;
  } else if (name == "float16" || name == "half") {
    spec->dtype = DType::kF16;
  } else if (name != "auto") {
    return UnsupportedField(config, key, "float32, bfloat16, float16");
  }
  return OkStatus();
}

// An id outside the vocabulary never occurs (transformers only warns of it): it is left out, so
// that whoever indexes logits by it need not check.
Status AddTokenId(const Json& config, std::string_view key, const Json& value, int64_t vocab_size,
                  std::vector<int32_t>* ids) {
  const int64_t* id = value.AsInt();
  if (id == nullptr || *id < -1 || *id > kMaxTokenId) {
    return BadField(config, key, "token ids");
  }
  if (*id >= 0 && *id < vocab_size) ids->push_back(static_cast<int32_t>(*id));
  return OkStatus();
}

// The ids of a field that holds a number or a list of them; `fallback` if it is absent.
StatusOr<std::vector<int32_t>> ReadTokenIds(const Json& config, std::string_view key,
                                            std::optional<int32_t> fallback, int64_t vocab_size) {
  std::vector<int32_t> ids;
  const Json* value = FindField(config, key);
  if (value == nullptr && config.Find(key) == nullptr && fallback) {
    RETURN_IF_ERROR(AddTokenId(config, key, Json(int64_t{*fallback}), vocab_size, &ids));
  } else if (value != nullptr && value->AsArray() != nullptr) {
    for (const Json& item : *value->AsArray()) {
      RETURN_IF_ERROR(AddTokenId(config, key, item, vocab_size, &ids));
    }
  } else if (value != nullptr) {
    RETURN_IF_ERROR(AddTokenId(config, key, *value, vocab_size, &ids));
  }
  return ids;
}

Status ReadTokens(const Json& config, const Json* generation_config, const TextModel& text,
                  ModelSpec* spec) {
  const Family& family = *text.family;
  ASSIGN_OR_RETURN(const auto bos,
                   ReadTokenIds(Outermost(config, *text.config, "bos_token_id"), "bos_token_id",
                                family.default_bos_token_id, spec->vocab_size));
  if (!bos.empty()) spec->bos_token_id = bos.front();
  spec->pad_token_id =
      internal::FindPadToken(Outermost(config, *text.config, "pad_token_id"), spec->vocab_size);
  const bool generation_wins =
      generation_config != nullptr && FindField(*generation_config, "eos_token_id") != nullptr;
  const Json& says_eos =
      generation_wins ? *generation_config : Outermost(config, *text.config, "eos_token_id");
  StatusOr<std::vector<int32_t>> eos =
      ReadTokenIds(says_eos, "eos_token_id", family.default_eos_token_id, spec->vocab_size);
  if (!eos.ok())
    return generation_wins ? Annotate(eos.status(), "generation_config") : eos.status();
  spec->eos_token_ids = *std::move(eos);
  return OkStatus();
}

// What config.json says of the text model alone.
Status ReadTextModel(const Json& config, const Family& family, ModelSpec* spec) {
  RETURN_IF_ERROR(CheckUnsupported(config, false));
  ASSIGN_OR_RETURN(spec->quantized, internal::ReadQuantized(config));
  spec->qk_norm = family.qk_norm;
  spec->fused_modules = family.fused_modules;
  RETURN_IF_ERROR(ReadSizes(config, family, spec));
  RETURN_IF_ERROR(ReadBias(config, family, spec));
  RETURN_IF_ERROR(internal::ReadLayerWindows(config, family, spec));
  RETURN_IF_ERROR(family.gemma ? ReadGemma(config, *family.gemma, spec) : ReadSilu(config));
  if (family.multipliers) RETURN_IF_ERROR(ReadMultipliers(config, spec));
  if (family.is_gpt_oss) RETURN_IF_ERROR(ReadGptOss(config, spec));
  if (family.is_qwen35) RETURN_IF_ERROR(internal::ReadQwen35(config, spec));
  ASSIGN_OR_RETURN(spec->rms_norm_eps,
                   ReadNumber(config, {"rms_norm_eps", 1e-20, 1.0, family.default_rms_norm_eps}));
  return ReadRope(config, family, spec);
}

// As of experts in one tensor.
Status CheckCanBeMxfp4(const ModelSpec& spec) {
  if (!spec.quantized || !std::holds_alternative<Mxfp4Spec>(*spec.quantized)) return OkStatus();
  if (spec.experts && spec.experts->is_gpt_oss) return OkStatus();
  return Unimplemented(
      StrCat("quantization_config: \"quant_method\" is \"mxfp4\", which is not supported for ",
             spec.architecture, ", but for GptOssForCausalLM only"));
}

// Whether the tensors in a model's folder, where it has any, are those of a decoder alone.
bool HasDecoderAlone(const std::string& model_dir) {
  const auto checkpoint = Checkpoint::Open(model_dir);  // what is wrong with it, its loading says
  if (!checkpoint.ok()) return false;
  const TensorMap& tensors = checkpoint->tensors();
  const std::string head = StrCat(kTextNaming.lm_head, ".");
  const auto first = tensors.lower_bound(head);
  const bool has_head = first != tensors.end() && first->first.starts_with(head);
  return !has_head && FindModuleNaming(tensors, "").decoder == kDecoderNaming.decoder;
}

}  // namespace

StatusOr<ModelSpec> ParseModelSpec(const Json& config, const Json* generation_config) {
  if (config.AsObject() == nullptr) {
    return InvalidArgument("must be a JSON object, not " + config.KindName());
  }
  ASSIGN_OR_RETURN(const TextModel text, internal::FindTextModel(config));
  RETURN_IF_ERROR(CheckUnsupported(config, text.is_multimodal));
  ModelSpec spec{.architecture = text.architecture,
                 .has_lm_head = text.has_lm_head,
                 .is_multimodal = text.is_multimodal};
  const Status read = ReadTextModel(*text.config, *text.family, &spec);
  if (!read.ok()) return text.is_multimodal ? Annotate(read, std::string(kTextConfig)) : read;
  if (text.is_multimodal) {
    ASSIGN_OR_RETURN(const std::optional<QuantizedSpec> of_all, internal::ReadQuantized(config));
    if (of_all && spec.quantized) {
      return UnsupportedField(*text.config, "quantization_config",
                              "null, as there is one of the whole model");
    }
    if (of_all) spec.quantized = of_all;
  }
  RETURN_IF_ERROR(CheckCanBeMxfp4(spec));
  RETURN_IF_ERROR(ReadTied(config, text, &spec));
  const bool says_dtype = FindField(config, "dtype") || FindField(config, "torch_dtype");
  RETURN_IF_ERROR(ReadDType(says_dtype ? config : *text.config, &spec));
  RETURN_IF_ERROR(ReadTokens(config, generation_config, text, &spec));
  return spec;
}

int64_t ModelSpec::NumLayers(bool is_linear) const {
  int64_t count = 0;
  for (int64_t layer = 0; layer < num_layers; ++layer) count += IsLinear(layer) == is_linear;
  return count;
}

int64_t ModelSpec::IndexInKind(int64_t layer) const {
  int64_t index = 0;
  for (int64_t i = 0; i < layer; ++i) index += IsLinear(i) == IsLinear(layer);
  return index;
}

double ModelSpec::AttentionScale() const {
  return attention_multiplier.value_or(1 / std::sqrt(static_cast<double>(head_dim)));
}

StatusOr<ModelSpec> LoadModelSpec(const std::string& model_dir) {
  const std::string config_path = model_dir + "/config.json";
  const std::string generation_path = model_dir + "/generation_config.json";
  ASSIGN_OR_RETURN(const Json config, internal::ReadConfigFile(config_path));
  std::optional<Json> generation_config;
  if (FileExists(generation_path)) {
    ASSIGN_OR_RETURN(generation_config, internal::ReadConfigFile(generation_path));
  }
  StatusOr<ModelSpec> spec =
      ParseModelSpec(config, generation_config ? &*generation_config : nullptr);
  if (!spec.ok()) return Annotate(spec.status(), config_path);
  if (!spec->tie_word_embeddings && HasDecoderAlone(model_dir)) spec->has_lm_head = false;
  return spec;
}

}  // namespace aril

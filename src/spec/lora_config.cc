// PEFT's adapter_config.json. Source: peft, tuners/lora/config.py (fields and defaults).

#include "spec/lora_config.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "spec/fields.h"

namespace aril {
namespace {

using internal::BadField;
using internal::FindField;
using internal::UnsupportedField;

constexpr std::string_view kTaskField = "task_type";
constexpr std::string_view kClassifierTask = "SEQ_CLS";
constexpr double kMaxAlpha = 1e9;
constexpr int64_t kMaxLayerIndex = 1'000'000;
// One for each module of a model of 290 layers. Every one is tried on every module; of those that
// are no plain names, ResolveLora takes fewer.
constexpr size_t kMaxPatterns = 2048;
// Likewise, but these name lists of layers, of which a model has one or two.
constexpr size_t kMaxLayersPatterns = 64;
// As many layers as a model may have.
constexpr size_t kMaxLayersToTransform = 1024;
// PEFT's defaults.
constexpr int64_t kDefaultRank = 8;
constexpr double kDefaultAlpha = 8;

// Fields that change what an adapter computes, or to which weights, and are not implemented: they
// must be off. Fields that only guide training (dropout, initialization of A and B, loftq_config,
// …) or name things (revision, auto_mapping, …) do not matter here. Neither does fan_in_fan_out: it
// says how the base model's weight lies, A and B lie the same, and PEFT itself turns it off for
// linear layers.
constexpr std::string_view kMustBeOff[] = {
    // Variants of the operator.
    "lora_bias", "use_qalora", "use_bdlora", "kasa_config", "monteclora_config", "velora_config",
    "arrow_config", "megatron_config",
    // Which modules, layers and tokens it applies to.
    "layer_replication",
    // PEFT before 0.3: merged projections.
    "enable_lora"};

// Initializations that leave the base model's weights as they are. The others (pissa, olora, corda,
// loftq, lora_ga) subtract something from them or quantize them, so that an adapter which still
// names one belongs to a changed base model; PEFT converts such an adapter on request.
constexpr std::string_view kHarmlessInitializations[] = {"gaussian", "eva", "orthogonal", "mica"};

// What it was trained for: to go on with a text, to give its hidden states, or, with a head of its
// own, to classify it.
Status ReadTask(const Json& config, LoraConfig* result) {
  constexpr std::string_view kTasks[] = {"CAUSAL_LM", "FEATURE_EXTRACTION", kClassifierTask};
  ASSIGN_OR_RETURN(const std::string task, internal::ReadString(config, kTaskField, kTasks[0]));
  if (std::ranges::find(kTasks, task) == std::end(kTasks)) {
    return UnsupportedField(config, kTaskField, Join(kTasks, ", "));
  }
  result->is_classifier = task == kClassifierTask;
  return OkStatus();
}

Status CheckKind(const Json& config) {
  const Json* peft_type = FindField(config, "peft_type");
  if (peft_type == nullptr) {
    return InvalidArgument("not a PEFT adapter configuration: \"peft_type\" is missing");
  }
  if (peft_type->AsString() == nullptr || *peft_type->AsString() != "LORA") {
    return UnsupportedField(config, "peft_type", "\"LORA\"");
  }
  return OkStatus();
}

Status CheckUnsupported(const Json& config) {
  for (const std::string_view key : kMustBeOff) {
    if (!internal::IsOff(config, key)) {
      return UnsupportedField(config, key, "the field left off (false, null or empty)");
    }
  }
  ASSIGN_OR_RETURN(const std::string bias, internal::ReadString(config, "bias", "none"));
  if (bias != "none") return UnsupportedField(config, "bias", "\"none\"");
  const Json* init = FindField(config, "init_lora_weights");
  if (init == nullptr || init->AsBool() != nullptr) return OkStatus();
  if (init->AsString() == nullptr ||
      std::ranges::find(kHarmlessInitializations, *init->AsString()) ==
          std::end(kHarmlessInitializations)) {
    return UnsupportedField(config, "init_lora_weights",
                            "an initialization that keeps the base model's weights: true, false, " +
                                Join(kHarmlessInitializations, ", "));
  }
  return OkStatus();
}

bool IsAllLinear(std::string_view target) {
  constexpr std::string_view kAllLinear = "all-linear";
  return std::ranges::equal(target, kAllLinear, [](char a, char b) { return (a | 0x20) == b; });
}

Status ReadTargets(const Json& config, LoraConfig* result) {
  ASSIGN_OR_RETURN(result->exclude_modules,
                   internal::ReadModuleSelection(config, "exclude_modules"));
  ASSIGN_OR_RETURN(const ModuleSelection parameters,
                   internal::ReadModuleSelection(config, "target_parameters"));
  if (parameters.regex.has_value()) return BadField(config, "target_parameters", "a list of names");
  result->target_parameters = parameters.names;
  const bool needs_modules = parameters.names.empty();
  if (FindField(config, "target_modules") == nullptr) {
    if (!needs_modules) return OkStatus();
    // PEFT's choice for the model types llama, mistral, mixtral, qwen2 and qwen3. (Of some others
    // it has none; then a saved file says which it was.)
    result->target_modules.names = {"q_proj", "v_proj"};
    return OkStatus();
  }
  ASSIGN_OR_RETURN(result->target_modules, internal::ReadModuleSelection(config, "target_modules"));
  if (result->target_modules.empty() && needs_modules) {
    return BadField(config, "target_modules", "a non-empty list of strings, or a string");
  }
  if (result->target_modules.regex.has_value() && IsAllLinear(*result->target_modules.regex)) {
    result->all_linear = true;
    result->target_modules = {};
  }
  return OkStatus();
}

Status ReadLayers(const Json& config, LoraConfig* result) {
  ASSIGN_OR_RETURN(const ModuleSelection pattern,
                   internal::ReadModuleSelection(config, "layers_pattern"));
  result->layers_pattern = pattern.names;
  if (pattern.regex.has_value()) result->layers_pattern.push_back(*pattern.regex);
  if (result->layers_pattern.size() > kMaxLayersPatterns) {
    return InvalidArgument(StrCat("\"layers_pattern\" has ", result->layers_pattern.size(),
                                  " patterns; there may be ", kMaxLayersPatterns, " at most"));
  }
  const Json* layers = FindField(config, "layers_to_transform");
  if (layers != nullptr && layers->AsArray() != nullptr && layers->AsArray()->empty()) {
    layers = nullptr;
  }
  if (layers == nullptr) {
    if (result->layers_pattern.empty()) return OkStatus();
    return InvalidArgument("\"layers_pattern\" is given without \"layers_to_transform\"");
  }
  if (result->all_linear || result->target_modules.regex.has_value()) {
    return BadField(config, "layers_to_transform",
                    "none, because \"target_modules\" is a string (as in PEFT)");
  }
  if (layers->AsArray() != nullptr && layers->AsArray()->size() > kMaxLayersToTransform) {
    return InvalidArgument(StrCat("\"layers_to_transform\" has ", layers->AsArray()->size(),
                                  " indices; there may be ", kMaxLayersToTransform, " at most"));
  }
  const Json::Array one = {*layers};
  for (const Json& item : layers->AsArray() != nullptr ? *layers->AsArray() : one) {
    const int64_t* index = item.AsInt();
    if (index == nullptr || *index < 0 || *index > kMaxLayerIndex) {
      return BadField(config, "layers_to_transform", "an index of a layer, or a list of them");
    }
    if (!result->layers_to_transform.has_value()) result->layers_to_transform.emplace();
    result->layers_to_transform->push_back(*index);
  }
  return OkStatus();
}

// Whether they are of the base model's vocabulary, ResolveLora says.
Status ReadInvocation(const Json& config, LoraConfig* result) {
  constexpr std::string_view kField = "alora_invocation_tokens";
  if (internal::IsOff(config, kField)) {
    if (internal::IsOff(config, "invocation_string")) return OkStatus();
    // Of IBM's own program, before PEFT had it.
    return UnsupportedField(config, "invocation_string",
                            "\"alora_invocation_tokens\", as PEFT has it: the ids of the tokens "
                            "of that string without the first, from which such adapters apply");
  }
  const Json::Array* tokens = FindField(config, kField)->AsArray();
  if (tokens == nullptr || tokens->size() > kMaxInvocationTokens) {
    return BadField(config, kField, StrCat("a list of at most ", kMaxInvocationTokens, " tokens"));
  }
  for (const Json& item : *tokens) {
    const int64_t* token = item.AsInt();
    if (token == nullptr || *token < 0 || *token > std::numeric_limits<int32_t>::max()) {
      return BadField(config, kField, "a list of ids of tokens");
    }
    result->invocation_tokens.push_back(static_cast<int32_t>(*token));
  }
  // PEFT refuses the first two itself; modules that are saved are others for all tokens.
  for (const auto& [is_given, field] : {std::pair(result->use_dora, "use_dora"),
                                        {!result->target_parameters.empty(), "target_parameters"},
                                        {result->is_classifier, "task_type"},
                                        {!result->modules_to_save.empty(), "modules_to_save"},
                                        {!result->token_rows.empty(), "trainable_token_indices"}}) {
    if (!is_given) continue;
    return Unimplemented(StrCat('"', kField, "\" together with \"", field, "\" is not supported"));
  }
  return OkStatus();
}

// An object of values by pattern; `read` takes one of them.
template <typename T, typename Read>
StatusOr<LoraConfig::Pattern<T>> ReadPattern(const Json& config, std::string_view key,
                                             const Read& read) {
  LoraConfig::Pattern<T> pattern;
  if (internal::IsOff(config, key)) return pattern;
  const Json::Object* object = FindField(config, key)->AsObject();
  if (object == nullptr || object->size() > kMaxPatterns) {
    return BadField(config, key, StrCat("an object of at most ", kMaxPatterns, " members"));
  }
  for (const auto& [name, value] : *object) {
    auto parsed = read(Json(Json::Object{{name, value}}), name);
    if (!parsed.ok()) return Annotate(parsed.status(), StrCat('"', key, '"'));
    pattern.emplace_back(name, *parsed);
  }
  return pattern;
}

}  // namespace

StatusOr<LoraConfig> ParseLoraConfig(const Json& config) {
  if (config.AsObject() == nullptr) {
    return InvalidArgument("must be a JSON object, not " + config.KindName());
  }
  RETURN_IF_ERROR(CheckKind(config));
  RETURN_IF_ERROR(CheckUnsupported(config));
  LoraConfig result;
  RETURN_IF_ERROR(ReadTask(config, &result));
  ASSIGN_OR_RETURN(result.rank, internal::ReadInt(config, {"r", 1, kMaxLoraRank, kDefaultRank}));
  ASSIGN_OR_RETURN(result.lora_alpha, internal::ReadNumber(config, {"lora_alpha", -kMaxAlpha,
                                                                    kMaxAlpha, kDefaultAlpha}));
  ASSIGN_OR_RETURN(result.use_rslora, internal::ReadBool(config, "use_rslora", false));
  ASSIGN_OR_RETURN(result.use_dora, internal::ReadBool(config, "use_dora", false));
  RETURN_IF_ERROR(ReadTargets(config, &result));
  if (result.use_dora && !result.target_parameters.empty()) {
    return InvalidArgument(
        "\"use_dora\" and \"target_parameters\" exclude each other (as in PEFT)");
  }
  ASSIGN_OR_RETURN(const ModuleSelection saved,
                   internal::ReadModuleSelection(config, "modules_to_save"));
  if (saved.regex.has_value()) return BadField(config, "modules_to_save", "a list of names");
  result.modules_to_save = saved.names;
  ASSIGN_OR_RETURN(result.token_rows, ReadTokenRows(config));
  ASSIGN_OR_RETURN(result.ensure_weight_tying,
                   internal::ReadBool(config, "ensure_weight_tying", false));
  RETURN_IF_ERROR(ReadInvocation(config, &result));
  RETURN_IF_ERROR(ReadLayers(config, &result));
  ASSIGN_OR_RETURN(result.rank_pattern,
                   ReadPattern<int64_t>(config, "rank_pattern", [](const Json& o, const auto& k) {
                     return internal::ReadInt(o, {k, 1, kMaxLoraRank});
                   }));
  ASSIGN_OR_RETURN(result.alpha_pattern,
                   ReadPattern<double>(config, "alpha_pattern", [](const Json& o, const auto& k) {
                     return internal::ReadNumber(o, {k, -kMaxAlpha, kMaxAlpha});
                   }));
  for (const auto& [key, text] : {std::pair("base_model_name_or_path", &result.base_model_name),
                                  {"peft_version", &result.peft_version}}) {
    const Json* value = FindField(config, key);
    if (value != nullptr && value->AsString() != nullptr) *text = *value->AsString();
  }
  return result;
}

bool IsClassifier(const Json& config) {
  const Json* const task = FindField(config, kTaskField);
  return task != nullptr && task->AsString() != nullptr && *task->AsString() == kClassifierTask;
}

StatusOr<LoraConfig> LoadLoraConfig(const Folder& adapter_dir) {
  constexpr const char* kFile = "adapter_config.json";
  ASSIGN_OR_RETURN(const Json config, internal::ReadConfigFile(adapter_dir, kFile));
  StatusOr<LoraConfig> result = ParseLoraConfig(config);
  if (!result.ok()) return Annotate(result.status(), adapter_dir.PathOf(kFile));
  return result;
}

}  // namespace aril

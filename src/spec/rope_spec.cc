// Source: transformers, modeling_rope_utils.py: RotaryEmbeddingConfigMixin (precedence of fields)
// and _compute_linear_scaling_rope_parameters, _compute_llama3_parameters (required fields).

#include "spec/rope_spec.h"

#include "base/strings.h"
#include "spec/fields.h"

namespace aril::internal {
namespace {

constexpr double kDefaultTheta = 10000.0;
constexpr double kDefaultFullTheta = 1e6;  // Gemma 3
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxPositions = int64_t{1} << 24;

// The object that scales: "rope_scaling" wins over "rope_parameters" where both say something.
StatusOr<std::string_view> ParametersKey(const Json& config) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (IsOff(config, key)) continue;
    if (config.Find(key)->AsObject() == nullptr) return BadField(config, key, "an object or null");
    return key;
  }
  return std::string_view();
}

Status CheckWholeHead(const Json& object) {
  ASSIGN_OR_RETURN(
      const double part,
      ReadNumber(object, {.key = "partial_rotary_factor", .min = 0, .max = 1, .fallback = 1.0}));
  if (part != 1.0) return UnsupportedField(object, "partial_rotary_factor", "1.0");
  return OkStatus();
}

Status ReadLlama3(const Json& config, const Json& parameters, int64_t max_position_embeddings,
                  RopeSpec* rope) {
  ASSIGN_OR_RETURN(rope->low_freq_factor,
                   ReadNumber(parameters, {"low_freq_factor", 1e-3, kMaxFactor}));
  ASSIGN_OR_RETURN(rope->high_freq_factor,
                   ReadNumber(parameters, {"high_freq_factor", 1e-3, kMaxFactor}));
  if (rope->high_freq_factor <= rope->low_freq_factor) {
    return BadField(parameters, "high_freq_factor",
                    StrCat("more than low_freq_factor, which is ", rope->low_freq_factor));
  }
  const std::string_view key = "original_max_position_embeddings";
  ASSIGN_OR_RETURN(rope->original_max_position_embeddings,
                   ReadInt(parameters, {key, 1, kMaxPositions, max_position_embeddings}));
  const int64_t inside = rope->original_max_position_embeddings;
  ASSIGN_OR_RETURN(const int64_t outside, ReadInt(config, {key, 1, kMaxPositions, inside}));
  if (outside != inside) {
    return BadField(config, key,
                    StrCat(inside, ", as with the RoPE parameters: versions of transformers ",
                           "disagree which of the two counts"));
  }
  return OkStatus();
}

Status ReadScaling(const Json& config, const Json& parameters, int64_t max_position_embeddings,
                   RopeSpec* rope) {
  const bool new_spelling = FindField(parameters, "rope_type") != nullptr;
  const std::string_view type_key = new_spelling ? "rope_type" : "type";
  ASSIGN_OR_RETURN(const std::string type, ReadString(parameters, type_key, "default"));
  if (type == "default") return OkStatus();
  if (type == "linear") {
    rope->scaling = RopeSpec::Scaling::kLinear;
  } else if (type == "llama3") {
    rope->scaling = RopeSpec::Scaling::kLlama3;
    RETURN_IF_ERROR(ReadLlama3(config, parameters, max_position_embeddings, rope));
  } else {
    return UnsupportedField(parameters, type_key, "default, linear, llama3");
  }
  ASSIGN_OR_RETURN(rope->factor, ReadNumber(parameters, {"factor", 1e-3, kMaxFactor}));
  return OkStatus();
}

// transformers 5 may give one object per kind of layer.
Status CheckNotNested(const Json& parameters) {
  for (const auto& [key, value] : *parameters.AsObject()) {
    if (value.AsObject() != nullptr) {
      return UnsupportedField(parameters, key, "one set of parameters for all layers");
    }
  }
  return OkStatus();
}

// The RoPE that an object in `config` describes. `default_theta` holds if it says none.
StatusOr<RopeSpec> ReadParameters(const Json& config, const Json& parameters, double default_theta,
                                  int64_t max_position_embeddings) {
  RopeSpec rope;
  RETURN_IF_ERROR(CheckNotNested(parameters));
  RETURN_IF_ERROR(CheckWholeHead(parameters));
  ASSIGN_OR_RETURN(rope.theta,
                   ReadNumber(parameters, {"rope_theta", 1.0, kMaxTheta, default_theta}));
  RETURN_IF_ERROR(ReadScaling(config, parameters, max_position_embeddings, &rope));
  return rope;
}

// Of the object `outer` in Gemma 3's config, the one for layers of a kind.
StatusOr<RopeSpec> ReadNested(const Json& config, std::string_view outer, std::string_view kind,
                              double default_theta, int64_t max_position_embeddings) {
  const Json& parameters = *config.Find(outer);
  if (IsOff(parameters, kind)) return RopeSpec{.theta = default_theta};
  if (parameters.Find(kind)->AsObject() == nullptr) {
    return Annotate(BadField(parameters, kind, "an object or null"), std::string(outer));
  }
  auto rope =
      ReadParameters(config, *parameters.Find(kind), default_theta, max_position_embeddings);
  if (!rope.ok()) return Annotate(rope.status(), StrCat(outer, ": ", kind));
  return rope;
}

}  // namespace

StatusOr<RopeSpec> ParseRopeSpec(const Json& config, int64_t max_position_embeddings) {
  RETURN_IF_ERROR(CheckWholeHead(config));
  ASSIGN_OR_RETURN(const double theta,
                   ReadNumber(config, {"rope_theta", 1.0, kMaxTheta, kDefaultTheta}));
  ASSIGN_OR_RETURN(const std::string_view key, ParametersKey(config));
  if (key.empty()) return RopeSpec{.theta = theta};
  auto rope = ReadParameters(config, *config.Find(key), theta, max_position_embeddings);
  if (!rope.ok()) return Annotate(rope.status(), std::string(key));
  return rope;
}

StatusOr<TwoRopes> ParseTwoRopes(const Json& config, int64_t max_position_embeddings) {
  constexpr std::string_view kNested = "rope_parameters", kFlat = "rope_scaling";
  RETURN_IF_ERROR(CheckWholeHead(config));
  ASSIGN_OR_RETURN(const double full_theta,
                   ReadNumber(config, {"rope_theta", 1.0, kMaxTheta, kDefaultFullTheta}));
  ASSIGN_OR_RETURN(const double windowed_theta,
                   ReadNumber(config, {"rope_local_base_freq", 1.0, kMaxTheta, kDefaultTheta}));
  TwoRopes ropes{.full = {.theta = full_theta}, .windowed = {.theta = windowed_theta}};
  ASSIGN_OR_RETURN(const std::string_view key, ParametersKey(config));
  if (key == kFlat) {
    if (!IsOff(config, kNested)) {
      return UnsupportedField(config, kFlat, StrCat("null beside \"", kNested, "\""));
    }
    auto rope = ReadParameters(config, *config.Find(kFlat), full_theta, max_position_embeddings);
    if (!rope.ok()) return Annotate(rope.status(), std::string(kFlat));
    ropes.full = *rope;
  } else if (key == kNested) {
    for (const auto& [name, value] : *config.Find(kNested)->AsObject()) {
      if (name == "full_attention" || name == "sliding_attention") continue;
      return Annotate(
          UnsupportedField(*config.Find(kNested), name, "full_attention and sliding_attention"),
          std::string(kNested));
    }
    ASSIGN_OR_RETURN(ropes.full, ReadNested(config, kNested, "full_attention", full_theta,
                                            max_position_embeddings));
    ASSIGN_OR_RETURN(ropes.windowed, ReadNested(config, kNested, "sliding_attention",
                                                windowed_theta, max_position_embeddings));
  }
  return ropes;
}

}  // namespace aril::internal

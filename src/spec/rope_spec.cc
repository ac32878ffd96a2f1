// Source: transformers, modeling_rope_utils.py: RotaryEmbeddingConfigMixin (precedence of fields)
// and _compute_linear_scaling_rope_parameters, _compute_yarn_parameters,
// _compute_longrope_parameters, _compute_llama3_parameters (required fields, defaults).

#include "spec/rope_spec.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "spec/fields.h"

namespace aril::internal {
namespace {

constexpr double kDefaultTheta = 10000.0;
constexpr double kDefaultFullTheta = 1e6;  // Gemma 3
constexpr double kMaxTheta = 1e12;
constexpr double kMinFactor = 1e-3;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxAttentionFactor = 100;
constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr int64_t kMaxInterval = int64_t{1} << 24;
constexpr std::string_view kOriginalPositions = "original_max_position_embeddings";

// The object that scales: "rope_scaling" wins over "rope_parameters" where both say something.
StatusOr<std::string_view> ParametersKey(const Json& config) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (IsOff(config, key)) continue;
    if (config.Find(key)->AsObject() == nullptr) return BadField(config, key, "an object or null");
    return key;
  }
  return std::string_view();
}

// "rope_type", or as transformers once spelled it.
std::string_view TypeKey(const Json& parameters) {
  return FindField(parameters, "rope_type") != nullptr ? "rope_type" : "type";
}

Status CheckWholeHead(const Json& object) {
  ASSIGN_OR_RETURN(
      const double part,
      ReadNumber(object, {.key = "partial_rotary_factor", .min = 0, .max = 1, .fallback = 1.0}));
  if (part != 1.0) return UnsupportedField(object, "partial_rotary_factor", "1.0");
  return OkStatus();
}

// What llama3 and yarn count from.
Status ReadOriginalPositions(const Json& config, const Json& parameters,
                             int64_t max_position_embeddings, RopeSpec* rope) {
  ASSIGN_OR_RETURN(
      rope->original_max_position_embeddings,
      ReadInt(parameters, {kOriginalPositions, 1, kMaxPositions, max_position_embeddings}));
  const int64_t inside = rope->original_max_position_embeddings;
  ASSIGN_OR_RETURN(const int64_t outside,
                   ReadInt(config, {kOriginalPositions, 1, kMaxPositions, inside}));
  if (outside != inside) {
    return BadField(config, kOriginalPositions,
                    StrCat(inside, ", as with the RoPE parameters: versions of transformers ",
                           "disagree which of the two counts"));
  }
  return OkStatus();
}

Status ReadLlama3(const Json& config, const Json& parameters, int64_t max_position_embeddings,
                  RopeSpec* rope) {
  ASSIGN_OR_RETURN(rope->low_freq_factor,
                   ReadNumber(parameters, {"low_freq_factor", kMinFactor, kMaxFactor}));
  ASSIGN_OR_RETURN(rope->high_freq_factor,
                   ReadNumber(parameters, {"high_freq_factor", kMinFactor, kMaxFactor}));
  if (rope->high_freq_factor <= rope->low_freq_factor) {
    return BadField(parameters, "high_freq_factor",
                    StrCat("more than low_freq_factor, which is ", rope->low_freq_factor));
  }
  return ReadOriginalPositions(config, parameters, max_position_embeddings, rope);
}

// A number, if it says one that is not 0, which Python takes for none.
StatusOr<std::optional<double>> ReadPositive(const Json& object, std::string_view key, double max) {
  ASSIGN_OR_RETURN(const double value, ReadNumber(object, {key, 0, max, 0.0}));
  return value == 0 ? std::nullopt : std::optional(value);
}

// By which queries and keys are multiplied: that of the paper, unless it says another one.
StatusOr<double> ReadAttentionFactor(const Json& parameters, double of_paper) {
  return ReadNumber(parameters, {"attention_factor", kMinFactor, kMaxAttentionFactor, of_paper});
}

// By which YaRN sharpens attention (Peng et al. 2023, section 3.4).
double YarnAttentionFactor(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

Status ReadYarn(const Json& config, const Json& parameters, int64_t max_position_embeddings,
                RopeSpec* rope) {
  RETURN_IF_ERROR(ReadOriginalPositions(config, parameters, max_position_embeddings, rope));
  ASSIGN_OR_RETURN(const auto fast, ReadPositive(parameters, "beta_fast", kMaxFactor));
  ASSIGN_OR_RETURN(const auto slow, ReadPositive(parameters, "beta_slow", kMaxFactor));
  rope->beta_fast = fast.value_or(rope->beta_fast);
  rope->beta_slow = slow.value_or(rope->beta_slow);
  if (rope->beta_fast < rope->beta_slow) {
    return BadField(parameters, "beta_fast",
                    StrCat("no less than beta_slow, which is ", rope->beta_slow));
  }
  if (rope->theta <= 1) return BadField(parameters, "rope_theta", "more than 1, as with yarn");
  const Json* truncate = parameters.Find("truncate");
  ASSIGN_OR_RETURN(rope->truncate, ReadBool(parameters, "truncate", true));
  if (truncate != nullptr && truncate->is_null()) rope->truncate = false;  // as for Python
  ASSIGN_OR_RETURN(const auto mscale, ReadPositive(parameters, "mscale", kMaxAttentionFactor));
  ASSIGN_OR_RETURN(const auto mscale_all_dim,
                   ReadPositive(parameters, "mscale_all_dim", kMaxAttentionFactor));
  double attention_factor = YarnAttentionFactor(rope->factor, 1);
  if (mscale && mscale_all_dim) {
    attention_factor = YarnAttentionFactor(rope->factor, *mscale) /
                       YarnAttentionFactor(rope->factor, *mscale_all_dim);
  }
  ASSIGN_OR_RETURN(rope->attention_factor, ReadAttentionFactor(parameters, attention_factor));
  return OkStatus();
}

Status ReadScaling(const Json& config, const Json& parameters, int64_t max_position_embeddings,
                   RopeSpec* rope) {
  const std::string_view type_key = TypeKey(parameters);
  ASSIGN_OR_RETURN(const std::string type, ReadString(parameters, type_key, "default"));
  if (type == "default") return OkStatus();
  if (type != "linear" && type != "llama3" && type != "yarn") {
    return UnsupportedField(parameters, type_key, "default, linear, llama3, yarn");
  }
  ASSIGN_OR_RETURN(rope->factor, ReadNumber(parameters, {"factor", kMinFactor, kMaxFactor}));
  if (type == "linear") {
    rope->scaling = RopeSpec::Scaling::kLinear;
    return OkStatus();
  }
  rope->scaling = type == "yarn" ? RopeSpec::Scaling::kYarn : RopeSpec::Scaling::kLlama3;
  const auto read = type == "yarn" ? ReadYarn : ReadLlama3;
  return read(config, parameters, max_position_embeddings, rope);
}

// [num_pairs] numbers above 0.
StatusOr<std::vector<double>> ReadWavelengthFactors(const Json& parameters, std::string_view key,
                                                    int64_t num_pairs) {
  const Json* field = FindField(parameters, key);
  const Json::Array* values = field == nullptr ? nullptr : field->AsArray();
  const Status bad = BadField(parameters, key,
                              StrCat("an array of ", num_pairs, " numbers from ", kMinFactor,
                                     " to ", kMaxFactor, ", one for every two rotated dimensions"));
  if (values == nullptr || std::ssize(*values) != num_pairs) return bad;
  std::vector<double> factors;
  for (const Json& value : *values) {
    double& factor = factors.emplace_back();
    if (!value.AsNumber(&factor) || !(factor >= kMinFactor && factor <= kMaxFactor)) return bad;
  }
  return factors;
}

// How many dimensions of a head are rotated, halved. What stands with the parameters wins.
StatusOr<int64_t> ReadNumPairs(const Json& config, const Json& parameters, int64_t head_dim,
                               double default_part) {
  constexpr std::string_view kPart = "partial_rotary_factor";
  ASSIGN_OR_RETURN(const double outside, ReadNumber(config, {kPart, 0, 1, default_part}));
  ASSIGN_OR_RETURN(const double part, ReadNumber(parameters, {kPart, 0, 1, outside}));
  const auto rotated = static_cast<int64_t>(static_cast<double>(head_dim) * part);
  if (rotated < 2 || rotated % 2 != 0) {
    return BadField(FindField(parameters, kPart) ? parameters : config, kPart,
                    StrCat("what makes an even number of head_dim, which is ", head_dim));
  }
  return rotated / 2;
}

StatusOr<RopeSpec> ReadLongRope(const Json& config, const Json& parameters, const ModelSpec& spec,
                                double theta) {
  RopeSpec rope{.theta = theta, .scaling = RopeSpec::Scaling::kLongRope};
  // The one beside the parameters counts, and has a default.
  constexpr int64_t kDefaultPositions = 4096;
  ASSIGN_OR_RETURN(rope.original_max_position_embeddings,
                   ReadInt(config, {kOriginalPositions, 2, kMaxPositions, kDefaultPositions}));
  ASSIGN_OR_RETURN(rope.num_pairs, ReadNumPairs(config, parameters, spec.head_dim, 1));
  ASSIGN_OR_RETURN(rope.wavelength_factors,
                   ReadWavelengthFactors(parameters, "short_factor", *rope.num_pairs));
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const double ratio = static_cast<double>(spec.max_position_embeddings) / original;
  ASSIGN_OR_RETURN(const double factor,
                   ReadNumber(parameters, {"factor", kMinFactor, kMaxFactor, ratio}));
  const double attention_factor =
      factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  ASSIGN_OR_RETURN(rope.attention_factor, ReadAttentionFactor(parameters, attention_factor));
  return rope;
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
  const Json& of_kind = *parameters.Find(kind);
  const auto read = [&]() -> StatusOr<RopeSpec> {
    RETURN_IF_ERROR(CheckWholeHead(of_kind));
    return ReadParameters(config, of_kind, default_theta, max_position_embeddings);
  };
  auto rope = read();
  if (!rope.ok()) return Annotate(rope.status(), StrCat(outer, ": ", kind));
  return rope;
}

// In what is of some layers only, transformers does not see it.
Status CheckTruncates(const RopeSpec& rope) {
  if (rope.truncate) return OkStatus();
  return Unimplemented("\"truncate\": false is not supported where layers have RoPEs of their own");
}

}  // namespace

StatusOr<RopeSpec> ParseRopeSpec(const Json& config, const ModelSpec& spec,
                                 const RopeDefaults& defaults) {
  if (!defaults.part) RETURN_IF_ERROR(CheckWholeHead(config));
  ASSIGN_OR_RETURN(const double theta,
                   ReadNumber(config, {"rope_theta", 1.0, kMaxTheta, defaults.theta}));
  ASSIGN_OR_RETURN(const std::string_view key, ParametersKey(config));
  const Json none = Json::Object();
  const Json& parameters = key.empty() ? none : *config.Find(key);
  const auto read = [&]() -> StatusOr<RopeSpec> {
    if (!defaults.part) RETURN_IF_ERROR(CheckWholeHead(parameters));
    ASSIGN_OR_RETURN(RopeSpec rope,
                     ReadParameters(config, parameters, theta, spec.max_position_embeddings));
    if (!defaults.part) return rope;
    ASSIGN_OR_RETURN(rope.num_pairs,
                     ReadNumPairs(config, parameters, spec.head_dim, *defaults.part));
    return rope;
  };
  auto rope = read();
  if (!rope.ok() && !key.empty()) return Annotate(rope.status(), std::string(key));
  return rope;
}

StatusOr<RopeSpec> ParsePhi3Rope(const Json& config, const ModelSpec& spec) {
  ASSIGN_OR_RETURN(double theta, ReadNumber(config, {"rope_theta", 1.0, kMaxTheta, kDefaultTheta}));
  ASSIGN_OR_RETURN(const std::string_view key, ParametersKey(config));
  const Json none = Json::Object();
  const Json& parameters = key.empty() ? none : *config.Find(key);
  const auto read = [&]() -> StatusOr<RopeSpec> {
    RETURN_IF_ERROR(CheckNotNested(parameters));
    ASSIGN_OR_RETURN(theta, ReadNumber(parameters, {"rope_theta", 1.0, kMaxTheta, theta}));
    const std::string_view type_key = TypeKey(parameters);
    ASSIGN_OR_RETURN(const std::string type, ReadString(parameters, type_key, "default"));
    if (type == "default") {
      RETURN_IF_ERROR(CheckWholeHead(config));
      RETURN_IF_ERROR(CheckWholeHead(parameters));
      return RopeSpec{.theta = theta};
    }
    // Its first files call it by the other two.
    if (type == "longrope" || type == "su" || type == "yarn") {
      return ReadLongRope(config, parameters, spec, theta);
    }
    return UnsupportedField(parameters, type_key, "default, longrope");
  };
  auto rope = read();
  if (!rope.ok() && !key.empty()) return Annotate(rope.status(), std::string(key));
  return rope;
}

int64_t PositionsOf(const RopeSpec& rope, int64_t max_position_embeddings) {
  const int64_t original = rope.original_max_position_embeddings;
  switch (rope.scaling) {
    case RopeSpec::Scaling::kYarn: {
      const double stretched = std::floor(static_cast<double>(original) * rope.factor);
      return std::max(max_position_embeddings, static_cast<int64_t>(std::min(
                                                   stretched, static_cast<double>(kMaxPositions))));
    }
    case RopeSpec::Scaling::kLongRope:
      return std::min(max_position_embeddings, original);
    case RopeSpec::Scaling::kNone:
    case RopeSpec::Scaling::kLinear:
    case RopeSpec::Scaling::kLlama3:
    case RopeSpec::Scaling::kNoRotation:
      break;
  }
  return max_position_embeddings;
}

StatusOr<std::vector<bool>> LayersWithoutRope(const Json& config, int64_t num_layers) {
  constexpr std::string_view kLayers = "no_rope_layers", kInterval = "no_rope_layer_interval";
  std::vector<bool> without;
  const Json* layers = FindField(config, kLayers);
  if (layers == nullptr) {
    ASSIGN_OR_RETURN(const int64_t interval, ReadInt(config, {kInterval, 1, kMaxInterval, 4}));
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      without.push_back((layer + 1) % interval == 0);
    }
    return without;
  }
  const Status bad =
      BadField(config, kLayers, StrCat("0 or 1 for each of ", num_layers, " layers, or for more"));
  if (layers->AsArray() == nullptr || std::ssize(*layers->AsArray()) < num_layers) return bad;
  for (const Json& layer : *layers->AsArray()) {
    const int64_t* rotates = layer.AsInt();
    if (rotates == nullptr || (*rotates != 0 && *rotates != 1)) return bad;
    without.push_back(*rotates == 0);
  }
  without.resize(static_cast<size_t>(num_layers));
  return without;
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
    const auto read = [&]() -> StatusOr<RopeSpec> {
      RETURN_IF_ERROR(CheckWholeHead(*config.Find(kFlat)));
      return ReadParameters(config, *config.Find(kFlat), full_theta, max_position_embeddings);
    };
    auto rope = read();
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
  RETURN_IF_ERROR(CheckTruncates(ropes.full));
  RETURN_IF_ERROR(CheckTruncates(ropes.windowed));
  return ropes;
}

}  // namespace aril::internal

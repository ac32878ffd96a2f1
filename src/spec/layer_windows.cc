#include "spec/layer_windows.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "spec/fields.h"

namespace aril::internal {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 24;
constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";

// "layer_types" of a model whose layers may differ: which of them see all keys.
StatusOr<std::vector<bool>> ReadLayerTypes(const Json& config, int64_t num_layers) {
  const Json::Array* types = FindField(config, "layer_types")->AsArray();
  const Status bad =
      BadField(config, "layer_types",
               StrCat("\"", kFull, "\" or \"", kSliding, "\" for each of ", num_layers, " layers"));
  if (types == nullptr || std::ssize(*types) != num_layers) return bad;
  std::vector<bool> full;
  for (const Json& type : *types) {
    const std::string* name = type.AsString();
    if (name == nullptr || (*name != kFull && *name != kSliding)) return bad;
    full.push_back(*name == kFull);
  }
  return full;
}

// Of a model whose layers are alike, it may only repeat what the other fields say.
Status CheckLayerTypes(const Json& config, const ModelSpec& spec) {
  const Json* types = FindField(config, "layer_types");
  if (types == nullptr) return OkStatus();
  const std::string_view expected = spec.sliding_window ? kSliding : kFull;
  const std::string supported =
      StrCat("\"", expected, "\" for each of ", spec.num_layers, " layers");
  if (types->AsArray() == nullptr) return BadField(config, "layer_types", supported);
  bool all = std::ssize(*types->AsArray()) == spec.num_layers;
  for (const Json& type : *types->AsArray()) all &= type.AsString() && *type.AsString() == expected;
  return all ? OkStatus() : UnsupportedField(config, "layer_types", supported);
}

StatusOr<std::vector<bool>> FullFromMaxWindowLayers(const Json& config, int64_t num_layers) {
  constexpr int64_t kDefault = 28;
  ASSIGN_OR_RETURN(const int64_t first,
                   ReadInt(config, {"max_window_layers", 0, kMaxWindow, kDefault}));
  std::vector<bool> full;
  for (int64_t layer = 0; layer < num_layers; ++layer) full.push_back(layer < first);
  return full;
}

StatusOr<std::vector<bool>> FullFromPattern(const Json& config, const Family& family,
                                            int64_t num_layers) {
  int64_t pattern = family.default_window_pattern;
  if (!family.window_pattern_field.empty()) {
    ASSIGN_OR_RETURN(pattern,
                     ReadInt(config, {family.window_pattern_field, 1, kMaxWindow, pattern}));
  }
  std::vector<bool> full;
  for (int64_t layer = 0; layer < num_layers; ++layer) full.push_back((layer + 1) % pattern == 0);
  return full;
}

StatusOr<std::vector<bool>> FullLayers(const Json& config, const Family& family,
                                       int64_t num_layers) {
  if (FindField(config, "layer_types") != nullptr) return ReadLayerTypes(config, num_layers);
  return family.window == WindowRule::kUpperLayers ? FullFromMaxWindowLayers(config, num_layers)
                                                   : FullFromPattern(config, family, num_layers);
}

// Of a model whose layers may differ.
Status ReadMixedWindows(const Json& config, const Family& family, ModelSpec* spec) {
  ASSIGN_OR_RETURN(std::vector<bool> full, FullLayers(config, family, spec->num_layers));
  if (std::ranges::all_of(full, [](bool each) { return each; })) return OkStatus();
  ASSIGN_OR_RETURN(spec->sliding_window, ReadInt(config, {"sliding_window", 1, kMaxWindow,
                                                          family.default_sliding_window}));
  spec->full_attention = std::move(full);
  return OkStatus();
}

}  // namespace

Status ReadLayerWindows(const Json& config, const Family& family, ModelSpec* spec) {
  const Json* window = config.Find("sliding_window");
  // An explicit null means none; only an absent field means the default.
  const bool is_null = window != nullptr && window->is_null();
  switch (family.window) {
    case WindowRule::kNone:
      if (window == nullptr || is_null) return CheckLayerTypes(config, *spec);
      return UnsupportedField(config, "sliding_window", StrCat("null for ", family.architecture));
    case WindowRule::kAllLayers:
      if (window != nullptr ? !is_null : family.default_sliding_window != 0) {
        ASSIGN_OR_RETURN(spec->sliding_window, ReadInt(config, {"sliding_window", 1, kMaxWindow,
                                                                family.default_sliding_window}));
      }
      return CheckLayerTypes(config, *spec);
    case WindowRule::kUpperLayers: {
      ASSIGN_OR_RETURN(const bool used, ReadBool(config, "use_sliding_window", false));
      if (!used || is_null) return CheckLayerTypes(config, *spec);
      return ReadMixedWindows(config, family, spec);
    }
    case WindowRule::kUnused: {
      ASSIGN_OR_RETURN(const bool used, ReadBool(config, "use_sliding_window", false));
      const bool has_none =
          window == nullptr ? family.default_sliding_window == 0 : window->is_null();
      if (!used || has_none) return CheckLayerTypes(config, *spec);
      return UnsupportedField(config, "use_sliding_window",
                              StrCat("false for ", family.architecture));
    }
    case WindowRule::kLinear:
      return OkStatus();
    case WindowRule::kMostLayers:
      if (is_null) return BadField(config, "sliding_window", "the size of a window");
      return ReadMixedWindows(config, family, spec);
  }
  CHECK(false);
}

}  // namespace aril::internal

// Source: peft, tuners/tuners_utils.py (check_target_module_exists) and utils/other.py
// (get_pattern_key).

#include "spec/lora_spec.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

using internal::CompileNamePattern;
using internal::ModuleMatcher;
using internal::NamePattern;

// Of a "rank_pattern" or "alpha_pattern". Each is tried on every module: one that backtracks as far
// as it may takes some 5 µs, and those of a model of 1024 layers then some 2 s.
constexpr size_t kMaxExpressions = 64;
// Of what a stranger's file brings into a message.
constexpr size_t kMaxShownName = 100;
constexpr size_t kMaxShownNames = 8;

// Modules that PEFT cannot adapt, and refuses when they are named: in the decoder, and in a layer.
constexpr std::string_view kNotLinear[] = {"", ".layers", ".norm", ".rotary_emb"};
constexpr std::string_view kNotLinearInLayers[] = {"", ".self_attn", ".mlp", ".input_layernorm",
                                                   ".post_attention_layernorm"};
constexpr std::string_view kQkNorms[] = {".self_attn.q_norm", ".self_attn.k_norm"};
constexpr std::string_view kOutputNorms[] = {".pre_feedforward_layernorm",
                                             ".post_feedforward_layernorm"};
constexpr std::string_view kActivation[] = {".mlp.act_fn"};
constexpr std::string_view kOfExperts[] = {".mlp.experts", ".mlp.experts.act_fn"};
constexpr std::string_view kOfPhi3[] = {".mlp.activation_fn", ".resid_attn_dropout",
                                        ".resid_mlp_dropout"};

std::vector<std::string_view> NotLinearInLayers(const ModelSpec& base) {
  std::vector<std::string_view> modules(std::begin(kNotLinearInLayers),
                                        std::end(kNotLinearInLayers));
  const auto add = [&](std::span<const std::string_view> more) {
    modules.insert(modules.end(), more.begin(), more.end());
  };
  if (base.experts) {
    add(kOfExperts);
  } else {
    add(base.fused_modules ? std::span<const std::string_view>(kOfPhi3) : kActivation);
  }
  if (base.qk_norm) add(kQkNorms);
  if (base.output_norms) add(kOutputNorms);
  return modules;
}

std::string Quoted(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kMaxShownNames) {
      shown.push_back(StrCat("and ", names.size() - kMaxShownNames, " more"));
      break;
    }
    shown.push_back(JsonQuote(name.substr(0, kMaxShownName)));
  }
  return Join(shown, ", ");
}

// What an error adds where names might be those of experts.
std::string WithoutExperts(const ModelSpec& base) {
  return base.experts ? "; adapters to experts and to their router are not supported" : "";
}

std::string Supported(const ModelSpec& base, const ModuleNaming& naming) {
  std::vector<std::string_view> names;
  for (const LinearModule& module : base.LinearModules()) {
    names.push_back(Name(module));
  }
  return StrCat(Join(names, ", "), ", e.g. ", naming.InLayer(0, base.LinearModules().front().path),
                ", ", naming.Embedding(), " and ", naming.lm_head);
}

// A "rank_pattern" or "alpha_pattern", compiled.
template <typename T>
class PatternTable {
 public:
  static StatusOr<PatternTable> Make(const LoraConfig::Pattern<T>& pattern,
                                     std::string_view field) {
    PatternTable table;
    table.field_ = field;
    size_t num_expressions = 0;
    for (const auto& [key, value] : pattern) {
      auto compiled = NamePattern::Make(key);
      if (!compiled.ok()) return Annotate(compiled.status(), StrCat('"', field, '"'));
      if (!compiled->is_name() && ++num_expressions > kMaxExpressions) {
        return InvalidArgument(StrCat('"', field, "\" has more than ", kMaxExpressions,
                                      " regular expressions that are no plain names"));
      }
      table.entries_.emplace_back(*std::move(compiled), value);
    }
    return table;
  }

  // The value of the first pattern that matches, else the fallback.
  StatusOr<T> Find(const std::string& module, T fallback) const {
    for (const auto& [pattern, value] : entries_) {
      const std::optional<bool> matches = pattern.Matches(module);
      if (!matches.has_value()) {
        return InvalidArgument(
            StrCat('"', field_, "\": a regular expression backtracks too often on ", module));
      }
      if (*matches) return value;
    }
    return fallback;
  }

 private:
  std::string field_;
  std::vector<std::pair<NamePattern, T>> entries_;
};

// "layers_to_transform" and "layers_pattern".
class LayerFilter {
 public:
  static StatusOr<LayerFilter> Make(const LoraConfig& config) {
    LayerFilter filter;
    filter.layers_ = config.layers_to_transform;
    if (filter.layers_.has_value()) std::ranges::sort(*filter.layers_);
    for (const std::string& pattern : config.layers_pattern) {
      auto regex = CompileNamePattern(StrCat(".*\\.(?:", pattern, ")\\.\\d+\\..*"));
      if (!regex.ok()) return Annotate(regex.status(), "\"layers_pattern\"");
      filter.patterns_.push_back(*std::move(regex));
    }
    return filter;
  }

  // Whether there are layers that it does not allow.
  bool chooses() const { return layers_.has_value(); }
  bool Allows(int64_t layer, const std::string& module) {
    if (!chooses()) return true;
    if (!std::ranges::binary_search(*layers_, layer)) return false;
    return patterns_.empty() || MatchesAny(module);
  }
  // A search was given up: Allows has not said the truth, and does not search any more.
  bool exhausted() const { return exhausted_; }

 private:
  bool MatchesAny(const std::string& module) {
    for (const Regex& pattern : patterns_) {
      if (exhausted_) return false;
      Regex::Matcher matcher(pattern);
      if (matcher.Find(module, 0).has_value()) return true;
      exhausted_ = matcher.exhausted();
    }
    return false;
  }

  std::optional<std::vector<int64_t>> layers_;  // sorted
  std::vector<Regex> patterns_;
  bool exhausted_ = false;
};

// Which modules a configuration targets.
class TargetFilter {
 public:
  static StatusOr<TargetFilter> Make(const LoraConfig& config) {
    TargetFilter filter;
    filter.all_linear_ = config.all_linear;
    ASSIGN_OR_RETURN(filter.targets_, ModuleMatcher::Make(config.target_modules, "target_modules"));
    ASSIGN_OR_RETURN(filter.excluded_,
                     ModuleMatcher::Make(config.exclude_modules, "exclude_modules"));
    ASSIGN_OR_RETURN(filter.layers_, LayerFilter::Make(config));
    return filter;
  }

  bool Targets(int64_t layer, const std::string& module) {
    const ModuleMatcher::Match match = targets_.Find(module);
    if (excluded_.Find(module) != ModuleMatcher::Match::kNone) return false;
    if (match == ModuleMatcher::Match::kSuffix) return layers_.Allows(layer, module);
    return all_linear_ || match != ModuleMatcher::Match::kNone;
  }
  // Modules outside of the layers; "all-linear" means only those inside. Of what is found by the
  // end of its name, PEFT wants the layer to be one of layers_to_transform: these have none.
  bool TargetsOther(const std::string& module) {
    const ModuleMatcher::Match match = targets_.Find(module);
    if (excluded_.Find(module) != ModuleMatcher::Match::kNone) return false;
    if (match == ModuleMatcher::Match::kSuffix) return !layers_.chooses();
    return match != ModuleMatcher::Match::kNone;
  }

  // After all modules were asked for: the names of target_modules that none of them has.
  StatusOr<std::vector<std::string>> Unmatched() const {
    for (const auto& [field, exhausted] : {std::pair("target_modules", targets_.exhausted()),
                                           {"exclude_modules", excluded_.exhausted()},
                                           {"layers_pattern", layers_.exhausted()}}) {
      if (!exhausted) continue;
      return InvalidArgument(
          StrCat('"', field,
                 "\": the regular expression backtracks too often on the base model's modules"));
    }
    return targets_.Unmatched();
  }

 private:
  bool all_linear_ = false;
  ModuleMatcher targets_;
  ModuleMatcher excluded_;
  LayerFilter layers_;
};

// Of a list in target_modules, PEFT refuses one that matches no module, and each name of a module
// that it cannot adapt. It leaves alone other names that match no module.
Status CheckNames(const std::vector<std::string>& names, const std::vector<std::string>& unmatched,
                  const ModelSpec& base, const ModuleNaming& naming) {
  if (names.empty()) return OkStatus();
  if (unmatched.size() == names.size()) {
    return InvalidArgument(StrCat("\"target_modules\" names ", Quoted(names),
                                  ", which no module of this base model is called; it has ",
                                  Supported(base, naming), WithoutExperts(base)));
  }
  ASSIGN_OR_RETURN(ModuleMatcher matcher, ModuleMatcher::Make({.names = names}, "target_modules"));
  const auto check = [&](const std::string& module) {
    if (matcher.Find(module) == ModuleMatcher::Match::kNone) return OkStatus();
    return InvalidArgument(StrCat("\"target_modules\" names ", module,
                                  ", which is not linear; supported are ",
                                  Supported(base, naming)));
  };
  for (const std::string_view module : kNotLinear) {
    RETURN_IF_ERROR(check(StrCat(naming.decoder, module)));
  }
  const std::vector<std::string_view> in_layers = NotLinearInLayers(base);
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const std::string_view module : in_layers) {
      RETURN_IF_ERROR(check(naming.Layer(layer) + std::string(module)));
    }
  }
  return OkStatus();
}

// The rank and scale of each targeted module.
class ModuleTable {
 public:
  static StatusOr<ModuleTable> Make(const LoraConfig& config) {
    ModuleTable table;
    table.config_ = &config;
    ASSIGN_OR_RETURN(table.ranks_,
                     PatternTable<int64_t>::Make(config.rank_pattern, "rank_pattern"));
    ASSIGN_OR_RETURN(table.alphas_,
                     PatternTable<double>::Make(config.alpha_pattern, "alpha_pattern"));
    return table;
  }

  StatusOr<LoraModule> Find(const std::string& module) const {
    LoraModule result;
    ASSIGN_OR_RETURN(result.rank, ranks_.Find(module, config_->rank));
    ASSIGN_OR_RETURN(const double alpha, alphas_.Find(module, config_->lora_alpha));
    const auto rank = static_cast<double>(result.rank);
    result.scale = alpha / (config_->use_rslora ? std::sqrt(rank) : rank);
    return result;
  }

 private:
  const LoraConfig* config_ = nullptr;
  PatternTable<int64_t> ranks_;
  PatternTable<double> alphas_;
};

// The modules outside of the layers: PEFT adapts them when they are named.
Status ResolveOthers(const LoraConfig& config, const ModelSpec& base, const ModuleNaming& naming,
                     const ModuleTable& modules, TargetFilter& targets, LoraSpec* spec) {
  const std::string embedding = naming.Embedding(), lm_head(naming.lm_head);
  const std::pair<const std::string&, LoraModule*> others[] = {{embedding, &spec->embedding},
                                                               {lm_head, &spec->lm_head}};
  for (const auto& [name, module] : others) {
    if (!targets.TargetsOther(name)) continue;
    ASSIGN_OR_RETURN(*module, modules.Find(name));
  }
  // A row of the embedding's A is as long as the rank, and has to fit where rows of the layers do.
  if (spec->embedding.rank > base.hidden_size) {
    return InvalidArgument(StrCat("the rank of ", embedding, " is ", spec->embedding.rank,
                                  ", more than the base model's hidden_size of ",
                                  base.hidden_size));
  }
  for (const std::string& saved : config.modules_to_save) {
    if (naming.is_multimodal() && IsOfVision(saved)) continue;
    const auto is = [&](std::string_view module) {
      return module == saved || module.ends_with("." + saved);
    };
    if (!is(embedding) && !is(lm_head)) {
      return Unimplemented(StrCat("\"modules_to_save\" names ",
                                  JsonQuote(saved.substr(0, kMaxShownName)), "; supported are ",
                                  embedding, " and ", lm_head));
    }
    (is(embedding) ? spec->replaces_embedding : spec->replaces_lm_head) = true;
  }
  if ((spec->replaces_embedding && spec->embedding.rank > 0) ||
      (spec->replaces_lm_head && spec->lm_head.rank > 0)) {
    return InvalidArgument(
        "\"target_modules\" and \"modules_to_save\" name the same module: it is adapted or "
        "replaced");
  }
  return OkStatus();
}

}  // namespace

int64_t LoraSpec::MaxRank() const {
  int64_t max = std::max(embedding.rank, lm_head.rank);
  for (const auto& layer : layers) {
    for (const LoraModule& module : layer) max = std::max(max, module.rank);
  }
  return max;
}

StatusOr<LoraSpec> ResolveLora(const LoraConfig& config, const ModelSpec& base,
                               const ModuleNaming& naming) {
  ASSIGN_OR_RETURN(TargetFilter targets, TargetFilter::Make(config));
  ASSIGN_OR_RETURN(const ModuleTable modules, ModuleTable::Make(config));
  LoraSpec spec{.use_dora = config.use_dora};
  spec.layers.resize(static_cast<size_t>(base.num_layers));
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const LinearModule& linear : base.LinearModules()) {
      const std::string name = naming.InLayer(layer, linear.path);
      if (!targets.Targets(layer, name)) continue;
      ASSIGN_OR_RETURN(const LoraModule module, modules.Find(name));
      for (const Projection projection : linear.projections) {
        spec.layers[static_cast<size_t>(layer)][static_cast<size_t>(projection)] = module;
      }
    }
  }
  RETURN_IF_ERROR(ResolveOthers(config, base, naming, modules, targets, &spec));
  ASSIGN_OR_RETURN(const std::vector<std::string> unmatched, targets.Unmatched());
  RETURN_IF_ERROR(CheckNames(config.target_modules.names, unmatched, base, naming));
  spec.unmatched_targets = Quoted(unmatched);
  if (spec.MaxRank() == 0 && !spec.replaces_embedding && !spec.replaces_lm_head) {
    return InvalidArgument(StrCat(
        "\"target_modules\", \"exclude_modules\" and \"layers_to_transform\" together choose "
        "no module of this base model",
        WithoutExperts(base)));
  }
  return spec;
}

}  // namespace aril

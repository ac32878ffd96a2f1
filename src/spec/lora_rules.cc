// Source: peft, tuners/tuners_utils.py (check_target_module_exists) and utils/other.py
// (get_pattern_key).

#include "spec/lora_rules.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace aril::internal {
namespace {

// Of a "rank_pattern" or "alpha_pattern".
constexpr size_t kMaxExpressions = 64;
// How often the expressions of a field may be tried: each is on every module. One that backtracks
// as far as it may takes some 5 µs, and so many some 2.5 s: those of a model of 1024 layers.
constexpr size_t kMaxSearches = 1 << 19;

}  // namespace

StatusOr<LayerFilter> LayerFilter::Make(const LoraConfig& config, size_t num_modules) {
  LayerFilter filter;
  if (config.layers_pattern.size() * num_modules > kMaxSearches) {
    return InvalidArgument(StrCat("\"layers_pattern\" has ", config.layers_pattern.size(),
                                  " patterns, which are too many for the ", num_modules,
                                  " modules of this base model"));
  }
  filter.layers_ = config.layers_to_transform;
  if (filter.layers_.has_value()) std::ranges::sort(*filter.layers_);
  for (const std::string& pattern : config.layers_pattern) {
    auto regex = CompileNamePattern(StrCat(".*\\.(?:", pattern, ")\\.\\d+\\..*"));
    if (!regex.ok()) return Annotate(regex.status(), "\"layers_pattern\"");
    filter.patterns_.push_back(*std::move(regex));
  }
  return filter;
}

bool LayerFilter::Allows(int64_t layer, const std::string& module) {
  if (!chooses()) return true;
  if (!std::ranges::binary_search(*layers_, layer)) return false;
  return patterns_.empty() || MatchesAny(module);
}

bool LayerFilter::MatchesAny(const std::string& module) {
  for (const Regex& pattern : patterns_) {
    if (exhausted_) return false;
    Regex::Matcher matcher(pattern);
    if (matcher.Find(module, 0).has_value()) return true;
    exhausted_ = matcher.exhausted();
  }
  return false;
}

StatusOr<TargetRules> TargetRules::Make(const LoraConfig& config, size_t num_modules) {
  TargetRules rules;
  rules.all_linear_ = config.all_linear;
  ASSIGN_OR_RETURN(rules.targets_, ModuleMatcher::Make(config.target_modules, "target_modules"));
  ASSIGN_OR_RETURN(rules.excluded_, ModuleMatcher::Make(config.exclude_modules, "exclude_modules"));
  ASSIGN_OR_RETURN(rules.layers_, LayerFilter::Make(config, num_modules));
  return rules;
}

bool TargetRules::Targets(int64_t layer, const std::string& module) {
  const ModuleMatcher::Match match = targets_.Find(module);
  if (excluded_.Find(module) != ModuleMatcher::Match::kNone) return false;
  if (match == ModuleMatcher::Match::kSuffix) return layers_.Allows(layer, module);
  return all_linear_ || match != ModuleMatcher::Match::kNone;
}

bool TargetRules::TargetsOther(const std::string& module) {
  const ModuleMatcher::Match match = targets_.Find(module);
  if (excluded_.Find(module) != ModuleMatcher::Match::kNone) return false;
  if (match == ModuleMatcher::Match::kSuffix) return !layers_.chooses();
  return match != ModuleMatcher::Match::kNone;
}

StatusOr<std::vector<std::string>> TargetRules::Unmatched() const {
  for (const auto& [field, exhausted] : {std::pair("target_modules", targets_.exhausted()),
                                         {"exclude_modules", excluded_.exhausted()},
                                         {"layers_pattern", layers_.exhausted()}}) {
    if (!exhausted) continue;
    return InvalidArgument(StrCat(
        '"', field, "\": the regular expression backtracks too often on the base model's modules"));
  }
  return targets_.Unmatched();
}

template <typename T>
StatusOr<PatternTable<T>> PatternTable<T>::Make(const LoraConfig::Pattern<T>& pattern,
                                                std::string_view field, size_t num_modules) {
  PatternTable table;
  table.field_ = field;
  size_t num_expressions = 0;
  const size_t max_expressions =
      std::clamp(kMaxSearches / (num_modules + 1), size_t{1}, kMaxExpressions);
  for (const auto& [key, value] : pattern) {
    auto compiled = NamePattern::Make(key);
    if (!compiled.ok()) return Annotate(compiled.status(), StrCat('"', field, '"'));
    if (!compiled->is_name() && ++num_expressions > max_expressions) {
      return InvalidArgument(StrCat('"', field, "\" has more than ", max_expressions,
                                    " regular expressions that are no plain names"));
    }
    table.entries_.emplace_back(*std::move(compiled), value);
  }
  return table;
}

template <typename T>
StatusOr<T> PatternTable<T>::Find(const std::string& module, T fallback) const {
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

StatusOr<LoraModuleRules> LoraModuleRules::Make(const LoraConfig& config, size_t num_modules) {
  LoraModuleRules rules;
  rules.config_ = &config;
  ASSIGN_OR_RETURN(rules.ranks_,
                   PatternTable<int64_t>::Make(config.rank_pattern, "rank_pattern", num_modules));
  ASSIGN_OR_RETURN(rules.alphas_,
                   PatternTable<double>::Make(config.alpha_pattern, "alpha_pattern", num_modules));
  return rules;
}

StatusOr<LoraModule> LoraModuleRules::Find(const std::string& module) const {
  LoraModule result;
  ASSIGN_OR_RETURN(result.rank, ranks_.Find(module, config_->rank));
  ASSIGN_OR_RETURN(const double alpha, alphas_.Find(module, config_->lora_alpha));
  const auto rank = static_cast<double>(result.rank);
  result.scale = alpha / (config_->use_rslora ? std::sqrt(rank) : rank);
  return result;
}

}  // namespace aril::internal

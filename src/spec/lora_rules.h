// What a LoRA configuration says of a module, by its name.

#ifndef ARIL_SPEC_LORA_RULES_H_
#define ARIL_SPEC_LORA_RULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/regex.h"
#include "base/status.h"
#include "spec/lora_config.h"
#include "spec/lora_spec.h"
#include "spec/module_selection.h"

namespace aril::internal {

// "layers_to_transform" and "layers_pattern".
class LayerFilter {
 public:
  // For so many modules.
  static StatusOr<LayerFilter> Make(const LoraConfig& config, size_t num_modules);

  // Whether there are layers that it does not allow.
  bool chooses() const { return layers_.has_value(); }
  bool Allows(int64_t layer, const std::string& module);
  // A search was given up: Allows has not said the truth, and does not search any more.
  bool exhausted() const { return exhausted_; }

 private:
  bool MatchesAny(const std::string& module);

  std::optional<std::vector<int64_t>> layers_;  // sorted
  std::vector<Regex> patterns_;
  bool exhausted_ = false;
};

// Which modules it targets. Not thread-safe: remembers which names were met.
class TargetRules {
 public:
  // For so many modules. The configuration need not stay.
  static StatusOr<TargetRules> Make(const LoraConfig& config, size_t num_modules);

  bool Targets(int64_t layer, const std::string& module);
  // Modules outside of the layers; "all-linear" means only those inside. Of what is found by the
  // end of its name, PEFT wants the layer to be one of layers_to_transform: these have none.
  bool TargetsOther(const std::string& module);

  // After all modules were asked for: the names of target_modules that none of them has.
  StatusOr<std::vector<std::string>> Unmatched() const;

 private:
  bool all_linear_ = false;
  ModuleMatcher targets_;
  ModuleMatcher excluded_;
  LayerFilter layers_;
};

// A "rank_pattern" or "alpha_pattern", compiled.
template <typename T>
class PatternTable {
 public:
  // For so many modules.
  static StatusOr<PatternTable> Make(const LoraConfig::Pattern<T>& pattern, std::string_view field,
                                     size_t num_modules);

  // The value of the first pattern that matches, else the fallback.
  StatusOr<T> Find(const std::string& module, T fallback) const;

 private:
  std::string field_;
  std::vector<std::pair<NamePattern, T>> entries_;
};

// The rank and scale of a module that is targeted.
class LoraModuleRules {
 public:
  // For so many modules. The configuration must stay.
  static StatusOr<LoraModuleRules> Make(const LoraConfig& config, size_t num_modules);

  StatusOr<LoraModule> Find(const std::string& module) const;

 private:
  const LoraConfig* config_ = nullptr;
  PatternTable<int64_t> ranks_;
  PatternTable<double> alphas_;
};

}  // namespace aril::internal

#endif  // ARIL_SPEC_LORA_RULES_H_

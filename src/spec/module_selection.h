// Which modules of a model a field of PEFT's configuration names, and how PEFT matches them.
// Source: peft, tuners/tuners_utils.py, check_target_module_exists.

#ifndef ARIL_SPEC_MODULE_SELECTION_H_
#define ARIL_SPEC_MODULE_SELECTION_H_

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/regex.h"
#include "base/status.h"

namespace aril {

// "target_modules" or "exclude_modules", as written.
struct ModuleSelection {
  // A list: each names the modules that are called so or end in "." and it.
  std::vector<std::string> names;
  // Or a string: a regular expression (of Python's `re`) that a whole name must match.
  std::optional<std::string> regex;

  bool empty() const { return names.empty() && !regex.has_value(); }
};

namespace internal {

// A list of at most 8192 strings, or a string; null, "" and [] are empty. InvalidArgument for
// anything else.
StatusOr<ModuleSelection> ReadModuleSelection(const Json& config, std::string_view key);

// `pattern` as PEFT's files have them, for short names: bounded more tightly than Regex itself,
// because a configuration may hold many and each is tried on every module.
StatusOr<Regex> CompileNamePattern(std::string_view pattern);

// A key of "rank_pattern" or "alpha_pattern": stands for the modules that are called so or end in
// "." and it, and is a regular expression. Nearly all are names all the same, and there may be one
// for each module, so that names are compared.
// Source: peft, utils/other.py, get_pattern_key.
class NamePattern {
 public:
  static StatusOr<NamePattern> Make(std::string_view key);

  bool is_name() const { return !regex_.has_value(); }
  // None: the search was given up.
  std::optional<bool> Matches(std::string_view module) const;

 private:
  std::vector<std::optional<char>> name_;  // none: any character, as "." is
  std::optional<Regex> regex_;             // of what is not a name
};

// Not thread-safe.
class ModuleMatcher {
 public:
  enum class Match { kNone, kName, kSuffix, kRegex };

  // `field` for errors: "target_modules".
  static StatusOr<ModuleMatcher> Make(const ModuleSelection& names, std::string_view field);

  // It finds nothing.
  bool empty() const { return names_.empty() && !regex_.has_value(); }
  // How a module such as "model.layers.3.mlp.up_proj" is named, and remembers which name did it.
  Match Find(std::string_view module);

  // The names of the list that matched no module so far, in the list's order.
  std::vector<std::string> Unmatched() const;
  // A search of the regular expression was given up: Find has not said the truth.
  bool exhausted() const { return exhausted_; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, bool> matched_;  // by name: whether a module had it
  std::optional<Regex> regex_;
  bool exhausted_ = false;
};

}  // namespace internal
}  // namespace aril

#endif  // ARIL_SPEC_MODULE_SELECTION_H_

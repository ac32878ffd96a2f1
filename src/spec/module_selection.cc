#include "spec/module_selection.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "spec/fields.h"

namespace aril::internal {
namespace {

// Names have some fifty characters. Ordinary patterns take a few hundred steps on them.
constexpr uint32_t kMaxStepsPerName = 10'000;
constexpr size_t kMaxPatternBytes = 4096;
// One for each module of the deepest model (1024 layers).
constexpr size_t kMaxNames = 8192;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

// What a regular expression matches that is a name, where an escaped dot is one and another one is
// any character. None for other expressions.
std::optional<std::vector<std::optional<char>>> ParseName(std::string_view key) {
  std::vector<std::optional<char>> name;
  for (size_t i = 0; i < key.size(); ++i) {
    if (IsNameCharacter(key[i])) {
      name.emplace_back(key[i]);
    } else if (key[i] == '.') {
      name.emplace_back(std::nullopt);
    } else if (key.substr(i).starts_with("\\.")) {
      name.emplace_back(key[++i]);
    } else {
      return std::nullopt;
    }
  }
  return name;
}

}  // namespace

StatusOr<ModuleSelection> ReadModuleSelection(const Json& config, std::string_view key) {
  ModuleSelection result;
  if (IsOff(config, key)) return result;
  const Json* value = FindField(config, key);
  if (const std::string* regex = value->AsString()) {
    result.regex = *regex;
    return result;
  }
  const Status bad = BadField(config, key, "a list of strings, or a string");
  if (value->AsArray() == nullptr) return bad;
  if (value->AsArray()->size() > kMaxNames) {
    return InvalidArgument(StrCat('"', key, "\" has ", value->AsArray()->size(),
                                  " names; there may be ", kMaxNames, " at most"));
  }
  for (const Json& item : *value->AsArray()) {
    if (item.AsString() == nullptr) return bad;
    result.names.push_back(*item.AsString());
  }
  return result;
}

StatusOr<Regex> CompileNamePattern(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return InvalidArgument(StrCat("the regular expression has ", pattern.size(),
                                  " bytes, more than ", kMaxPatternBytes));
  }
  // The one construct of Python's `re` that PCRE2 takes for something else.
  if (pattern.find("{,") != std::string_view::npos) {
    return Unimplemented("the regular expression has {,n}; write {0,n}");
  }
  return Regex::Compile(pattern, {.whole_text = true, .max_steps = kMaxStepsPerName});
}

StatusOr<NamePattern> NamePattern::Make(std::string_view key) {
  NamePattern pattern;
  if (auto name = ParseName(key)) {
    pattern.name_ = *std::move(name);
    return pattern;
  }
  ASSIGN_OR_RETURN(pattern.regex_, CompileNamePattern(StrCat("(.*\\.)?(", key, ")")));
  return pattern;
}

std::optional<bool> NamePattern::Matches(std::string_view module) const {
  if (regex_.has_value()) {
    Regex::Matcher matcher(*regex_);
    const bool found = matcher.Find(module, 0).has_value();
    return matcher.exhausted() ? std::nullopt : std::optional(found);
  }
  if (module.size() < name_.size()) return false;
  const size_t before = module.size() - name_.size();
  if (before > 0 && module[before - 1] != '.') return false;
  return std::equal(
      name_.rbegin(), name_.rend(), module.rbegin(),
      [](std::optional<char> c, char of_module) { return c.value_or(of_module) == of_module; });
}

StatusOr<ModuleMatcher> ModuleMatcher::Make(const ModuleSelection& names, std::string_view field) {
  ModuleMatcher matcher;
  matcher.names_ = names.names;
  for (const std::string& name : names.names) matcher.matched_.emplace(name, false);
  if (names.regex.has_value()) {
    auto regex = CompileNamePattern(*names.regex);
    if (!regex.ok()) return Annotate(regex.status(), StrCat('"', field, '"'));
    matcher.regex_ = *std::move(regex);
  }
  return matcher;
}

ModuleMatcher::Match ModuleMatcher::Find(std::string_view module) {
  if (regex_.has_value()) {
    Regex::Matcher matcher(*regex_);
    const bool found = matcher.Find(module, 0).has_value();
    exhausted_ |= matcher.exhausted();
    return found ? Match::kRegex : Match::kNone;
  }
  Match match = Match::kNone;
  const auto mark = [&](std::string_view name, Match kind) {
    const auto found = matched_.find(std::string(name));
    if (found == matched_.end()) return;
    found->second = true;
    if (match == Match::kNone) match = kind;
  };
  mark(module, Match::kName);
  for (size_t dot = module.find('.'); dot != std::string_view::npos;
       dot = module.find('.', dot + 1))
    mark(module.substr(dot + 1), Match::kSuffix);
  return match;
}

std::vector<std::string> ModuleMatcher::Unmatched() const {
  std::vector<std::string> unmatched;
  for (const std::string& name : names_) {
    if (!matched_.at(name)) unmatched.push_back(name);
  }
  return unmatched;
}

}  // namespace aril::internal

// Source: transformers, configuration_utils.py ("id2label", "problem_type"), modeling_layers.py
// (GenericForSequenceClassification: "pad_token_id").

#include "spec/classifier_spec.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "spec/fields.h"

namespace aril {
namespace {

using internal::BadField;

std::optional<int64_t> ParseId(std::string_view text) {
  int64_t id = -1;
  std::from_chars(text.data(), text.data() + text.size(), id);
  if (id < 0 || id >= kMaxClassLabels || StrCat(id) != text) return std::nullopt;
  return id;
}

StatusOr<ClassifierSpec::Kind> ReadKind(const Json& config) {
  using Kind = ClassifierSpec::Kind;
  constexpr std::string_view kField = "problem_type";
  constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"", Kind::kOneIsRight},
      {"single_label_classification", Kind::kOneIsRight},
      {"multi_label_classification", Kind::kEachMayBeRight},
      {"regression", Kind::kRegression}};
  ASSIGN_OR_RETURN(const std::string name, internal::ReadString(config, kField, ""));
  for (const auto& [known, kind] : kKinds) {
    if (name == known) return kind;
  }
  return internal::UnsupportedField(
      config, kField, "single_label_classification, multi_label_classification, regression");
}

}  // namespace

std::string ClassifierSpec::LabelOf(int64_t id) const {
  const auto found = labels.find(id);
  return found == labels.end() ? StrCat("LABEL_", id) : found->second;
}

StatusOr<ClassifierSpec> ParseClassifierSpec(const Json& config, const ModelSpec& base) {
  constexpr std::string_view kLabels = "id2label";
  ClassifierSpec spec;
  ASSIGN_OR_RETURN(spec.kind, ReadKind(config));
  spec.pad_token_id = internal::FindPadToken(config, base.vocab_size);
  const Json* const names = internal::FindField(config, kLabels);
  if (names == nullptr) return spec;
  const std::string expected = StrCat("an object of names of 1 to ", kMaxLabelBytes,
                                      " bytes by numbers below ", kMaxClassLabels);
  if (names->AsObject() == nullptr) return BadField(config, kLabels, expected);
  for (const auto& [key, value] : *names->AsObject()) {
    const std::optional<int64_t> id = ParseId(key);
    const std::string* const name = value.AsString();
    if (!id || name == nullptr || name->empty() || name->size() > kMaxLabelBytes) {
      return BadField(config, kLabels, expected);
    }
    spec.labels.insert_or_assign(*id, *name);
  }
  return spec;
}

StatusOr<ClassifierSpec> LoadClassifierSpec(const Folder& dir, const ModelSpec& base) {
  constexpr const char* kFile = "config.json";
  if (!dir.Has(kFile)) return ClassifierSpec{.pad_token_id = base.pad_token_id};
  ASSIGN_OR_RETURN(const Json config, internal::ReadConfigFile(dir, kFile));
  auto spec = ParseClassifierSpec(config, base);
  if (!spec.ok()) return Annotate(spec.status(), dir.PathOf(kFile));
  return spec;
}

}  // namespace aril

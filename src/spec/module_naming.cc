// Source: transformers, conversion_mapping.py ("llava": what versions before 4.52 call by other
// names, as do the files that later ones write).

#include "spec/module_naming.h"

#include "base/strings.h"

namespace aril {
namespace {

struct MultimodalNaming {
  ModuleNaming text;
  std::string_view vision_prefix;
};
constexpr MultimodalNaming kMultimodalNamings[] = {
    {{"model.language_model", "lm_head"}, "model."},
    {{"language_model.model", "language_model.lm_head"}, ""},
};
constexpr std::string_view kVisionModules[] = {"vision_tower", "multi_modal_projector"};

// Whether a name is that of a module, or of what is in it.
bool IsIn(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

bool HasTensorIn(const TensorMap& tensors, const std::string& module) {
  const auto first = tensors.lower_bound(module + ".");
  return first != tensors.end() && IsIn(first->first, module);
}

}  // namespace

std::string ModuleNaming::Embedding() const { return StrCat(decoder, ".embed_tokens"); }

std::string ModuleNaming::Layer(int64_t layer) const { return StrCat(decoder, ".layers.", layer); }

std::string ModuleNaming::InLayer(int64_t layer, std::string_view path) const {
  return StrCat(Layer(layer), ".", path);
}

const ModuleNaming& FindModuleNaming(const TensorMap& tensors, std::string_view prefix) {
  for (const auto& [text, vision_prefix] : kMultimodalNamings) {
    if (HasTensorIn(tensors, StrCat(prefix, text.decoder))) return text;
    const bool has_own_head = text.lm_head != kTextNaming.lm_head;
    if (has_own_head && HasTensorIn(tensors, StrCat(prefix, text.lm_head))) return text;
    for (const std::string_view vision : kVisionModules) {
      if (HasTensorIn(tensors, StrCat(prefix, vision_prefix, vision))) return text;
    }
  }
  return kTextNaming;
}

std::string TextName(std::string_view name, const ModuleNaming& naming) {
  if (IsIn(name, naming.decoder)) {
    return StrCat(kTextNaming.decoder, name.substr(naming.decoder.size()));
  }
  if (IsIn(name, naming.lm_head)) {
    return StrCat(kTextNaming.lm_head, name.substr(naming.lm_head.size()));
  }
  return std::string(name);
}

bool IsOfVision(std::string_view module) {
  for (const auto& [text, prefix] : kMultimodalNamings) {
    for (const std::string_view vision : kVisionModules) {
      if (module.starts_with(prefix) && IsIn(module.substr(prefix.size()), vision)) return true;
    }
  }
  return false;
}

}  // namespace aril

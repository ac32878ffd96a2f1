// Source: transformers, conversion_mapping.py ("llava": what versions before 4.52 call by other
// names, as do the files that later ones write).

#include "spec/module_naming.h"

#include <algorithm>
#include <utility>

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
constexpr std::string_view kVisionModules[] = {"vision_tower", "multi_modal_projector", "visual"};

// Whether a name is that of a module, or of what is in it.
bool IsIn(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

bool HasTensorIn(const TensorMap& tensors, const std::string& module) {
  const auto first = tensors.lower_bound(module + ".");
  return first != tensors.end() && IsIn(first->first, module);
}

// A name's part as kTextNaming has it, and as Mixtral has it before transformers 5.
using PartNames = std::pair<std::string_view, std::string_view>;
constexpr PartNames kMixture = {"mlp.", "block_sparse_moe."};
constexpr PartNames kOfExpert[] = {
    {".gate_proj", ".w1"}, {".up_proj", ".w3"}, {".down_proj", ".w2"}};
constexpr std::string_view kRouter = "gate";
constexpr std::string_view kExperts = "experts.";
constexpr std::string_view kGptOssRouter = "router";

// Of a path in a layer: "mlp.experts.7.up_proj" becomes "block_sparse_moe.experts.7.w3".
std::string MixtralPath(std::string_view path) {
  if (!path.starts_with(kMixture.first)) return std::string(path);
  const std::string_view inside = path.substr(kMixture.first.size());
  if (inside.starts_with(kExperts)) {
    for (const auto& [ours, theirs] : kOfExpert) {
      if (!inside.ends_with(ours)) continue;
      return StrCat(kMixture.second, inside.substr(0, inside.size() - ours.size()), theirs);
    }
  }
  return StrCat(kMixture.second, inside);
}

// And back, in a tensor's name.
std::string FromMixtral(std::string_view name) {
  const std::string mixture = StrCat(".", kMixture.second);
  const size_t at = name.find(mixture);
  if (at == std::string_view::npos) return std::string(name);
  std::string inside(name.substr(at + mixture.size()));
  for (const auto& [ours, theirs] : kOfExpert) {
    const size_t found = inside.find(StrCat(theirs, "."));
    if (found == std::string::npos) continue;
    inside.replace(found, theirs.size(), ours);
    break;
  }
  return StrCat(name.substr(0, at + 1), kMixture.first, inside);
}

// gpt-oss' "mlp.router.weight" in a tensor's name becomes "mlp.gate.weight".
std::string FromGptOss(std::string_view name) {
  const std::string router = StrCat(".", kMixture.first, kGptOssRouter, ".");
  const size_t at = name.find(router);
  if (at == std::string_view::npos) return std::string(name);
  return StrCat(name.substr(0, at + 1), kMixture.first, kRouter, ".",
                name.substr(at + router.size()));
}

ExpertsNaming FindExpertsNaming(const TensorMap& tensors) {
  const std::string mixtral = StrCat(".", kMixture.second);
  const std::string router = StrCat(".", kMixture.first, kRouter, ".");
  const std::string experts = StrCat(".", kMixture.first, kExperts);
  bool has_router = false;
  bool has_experts = false;  // as parameters
  for (const auto& [name, tensor] : tensors) {
    if (name.find(mixtral) != std::string::npos) return ExpertsNaming::kMixtralModules;
    has_router |= name.find(router) != std::string::npos;
    const size_t at = name.find(experts);
    if (at == std::string::npos) continue;
    const char next = name.c_str()[at + experts.size()];
    if (next >= '0' && next <= '9') return ExpertsNaming::kModules;
    has_experts = true;
  }
  // A router alone may be either: it is called the same.
  return has_router && !has_experts ? ExpertsNaming::kModules : ExpertsNaming::kParameters;
}

// The decoder's and lm_head's.
const ModuleNaming& FindTextNaming(const TensorMap& tensors, std::string_view prefix) {
  for (const auto& [text, vision_prefix] : kMultimodalNamings) {
    if (HasTensorIn(tensors, StrCat(prefix, text.decoder))) return text;
    const bool has_own_head = text.lm_head != kTextNaming.lm_head;
    if (has_own_head && HasTensorIn(tensors, StrCat(prefix, text.lm_head))) return text;
    for (const std::string_view vision : kVisionModules) {
      if (HasTensorIn(tensors, StrCat(prefix, vision_prefix, vision))) return text;
    }
  }
  if (HasTensorIn(tensors, StrCat(prefix, kTextNaming.decoder))) return kTextNaming;
  const bool is_decoder =
      HasTensorIn(tensors, StrCat(prefix, kDecoderNaming.InDecoder("layers"))) ||
      HasTensorIn(tensors, StrCat(prefix, kDecoderNaming.Embedding()));
  return is_decoder ? kDecoderNaming : kTextNaming;
}

}  // namespace

std::string ModuleNaming::InDecoder(std::string_view path) const {
  return StrCat(decoder, decoder.empty() || path.empty() ? "" : ".", path);
}

std::string ModuleNaming::Embedding() const { return InDecoder("embed_tokens"); }

std::string ModuleNaming::Layer(int64_t layer) const { return InDecoder(StrCat("layers.", layer)); }

std::string ModuleNaming::InLayer(int64_t layer, std::string_view path) const {
  if (experts == ExpertsNaming::kMixtralModules) {
    return StrCat(Layer(layer), ".", MixtralPath(path));
  }
  if (experts == ExpertsNaming::kGptOss && path == StrCat(kMixture.first, kRouter)) {
    return StrCat(Layer(layer), ".", kMixture.first, kGptOssRouter);
  }
  return StrCat(Layer(layer), ".", path);
}

ModuleNaming FindModuleNaming(const TensorMap& tensors, std::string_view prefix) {
  ModuleNaming naming = FindTextNaming(tensors, prefix);
  naming.experts = FindExpertsNaming(tensors);
  return naming;
}

ModuleNaming FindModuleNaming(const TensorMap& tensors, std::string_view prefix,
                              const ModelSpec& model) {
  ModuleNaming naming = FindTextNaming(tensors, prefix);
  if (!model.experts) return naming;
  naming.experts = model.experts->is_gpt_oss ? ExpertsNaming::kGptOss : FindExpertsNaming(tensors);
  return naming;
}

std::string TextName(std::string_view name, const ModuleNaming& naming) {
  if (naming.experts == ExpertsNaming::kMixtralModules) {
    return TextName(FromMixtral(name), {naming.decoder, naming.lm_head});
  }
  if (naming.experts == ExpertsNaming::kGptOss) {
    return TextName(FromGptOss(name), {naming.decoder, naming.lm_head});
  }
  if (naming.decoder.empty()) {
    const bool is_outside = IsIn(name, kTextNaming.lm_head);
    return is_outside ? std::string(name) : kTextNaming.InDecoder(name);
  }
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

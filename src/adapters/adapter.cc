#include "adapters/adapter.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

// Of a name that a stranger's file brings into a message.
constexpr size_t kMaxShownName = 120;

std::string TensorName(int64_t layer, Projection projection, const char* matrix) {
  return StrCat("base_model.model.model.layers.", layer, ".", ModulePath(projection), ".", matrix,
                ".weight");
}

bool IsWeightDType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

StatusOr<TensorView> GetMatrix(const TensorMap& tensors, const std::string& name,
                               const Shape& shape, Adapter::Values values) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return InvalidArgument(
        StrCat("tensor ", name,
               " is missing, although target_modules in adapter_config.json asks for it"));
  }
  const TensorView& tensor = found->second;
  if (tensor.shape != shape) {
    return InvalidArgument(StrCat("tensor ", name, " has shape ", ToString(tensor.shape),
                                  ", but this base model and the config's rank need ",
                                  ToString(shape),
                                  ": was the adapter trained for another base model?"));
  }
  if (!IsWeightDType(tensor.dtype)) {
    return InvalidArgument(
        StrCat("tensor ", name, " has dtype ", tensor.dtype, "; supported are F32, F16 and BF16"));
  }
  if (values == Adapter::Values::kUnknown && !AllFinite(tensor)) {
    return InvalidArgument(StrCat("tensor ", name, " holds NaN or infinite values"));
  }
  return tensor;
}

Status RefusePickle(const std::string& dir) {
  for (const char* name : {"adapter_model.bin", "adapter_model.pt"}) {
    if (FileExists(dir + "/" + name)) {
      return InvalidArgument(
          StrCat(dir, "/", name,
                 ": pickle files can run code and are not read; save the adapter as safetensors"));
    }
  }
  return OkStatus();
}

StatusOr<LoraSpec> LoadSpec(const std::string& dir, const ModelSpec& base, int64_t max_rank) {
  const std::string path = dir + "/adapter_config.json";
  ASSIGN_OR_RETURN(const LoraConfig config, LoadLoraConfig(dir));
  StatusOr<LoraSpec> spec = ResolveLora(config, base);
  if (!spec.ok()) return Annotate(spec.status(), path);
  if (spec->MaxRank() > max_rank) {
    return InvalidArgument(StrCat(path, ": the largest rank is ", spec->MaxRank(),
                                  ", more than the --max-lora-rank of ", max_rank));
  }
  return spec;
}

}  // namespace

StatusOr<Adapter> Adapter::Open(const std::string& dir, const ModelSpec& base, int64_t max_rank,
                                Values values) {
  Adapter adapter;
  ASSIGN_OR_RETURN(adapter.spec_, LoadSpec(dir, base, max_rank));
  const std::string path = dir + "/adapter_model.safetensors";
  if (!FileExists(path)) RETURN_IF_ERROR(RefusePickle(dir));
  ASSIGN_OR_RETURN(adapter.file_, SafetensorsFile::Open(path));
  const TensorMap& tensors = adapter.file_.tensors();

  adapter.layers_.resize(static_cast<size_t>(base.num_layers));
  std::set<std::string, std::less<>> known;
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    for (const Projection projection : kAllProjections) {
      const int64_t rank = adapter.spec_.At(layer, projection).rank;
      if (rank == 0) continue;
      const std::string a_name = TensorName(layer, projection, "lora_A");
      const std::string b_name = TensorName(layer, projection, "lora_B");
      auto a = GetMatrix(tensors, a_name, {rank, base.InFeatures(projection)}, values);
      if (!a.ok()) return Annotate(a.status(), path);
      auto b = GetMatrix(tensors, b_name, {base.OutFeatures(projection), rank}, values);
      if (!b.ok()) return Annotate(b.status(), path);
      adapter.layers_[static_cast<size_t>(layer)][static_cast<size_t>(projection)] =
          LoraPair{*a, *b};
      known.insert(a_name);
      known.insert(b_name);
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (!known.contains(name)) {
      return InvalidArgument(StrCat(
          path, ": tensor ", JsonQuote(name.substr(0, kMaxShownName)),
          " belongs to no target module of this base model (", base.num_layers,
          " layers) and this config; serving the adapter without it would change its results"));
    }
  }
  return adapter;
}

const LoraPair* Adapter::Find(int64_t layer, Projection projection) const {
  const auto& pair = layers_[static_cast<size_t>(layer)][static_cast<size_t>(projection)];
  return pair.has_value() ? &*pair : nullptr;
}

}  // namespace aril

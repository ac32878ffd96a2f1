// A model directory's weights: one file, or shards with an index.

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = 32 << 20;

// Tensor name → the shard that holds it.
using WeightMap = std::map<std::string, std::string>;

// A shard is opened by name: it must not lead out of the model's directory.
bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

StatusOr<WeightMap> ParseIndex(std::string_view text) {
  ASSIGN_OR_RETURN(const Json index, Json::Parse(text, {.max_bytes = kMaxIndexBytes}));
  const Json* weight_map = index.Find("weight_map");
  if (weight_map == nullptr || weight_map->AsObject() == nullptr) {
    return InvalidArgument("weight_map must be an object that names each tensor's file");
  }
  WeightMap result;
  for (const auto& [tensor, shard] : *weight_map->AsObject()) {
    if (shard.AsString() == nullptr) {
      return InvalidArgument(
          StrCat("weight_map ", JsonQuote(tensor), " must be a file name, not ", shard.KindName()));
    }
    if (!IsPlainFileName(*shard.AsString())) {
      return InvalidArgument(StrCat("weight_map ", JsonQuote(tensor), ": ",
                                    JsonQuote(*shard.AsString()),
                                    " is not a plain file name of the model's directory"));
    }
    result.emplace(tensor, *shard.AsString());
  }
  if (result.empty()) return InvalidArgument("weight_map is empty");
  return result;
}

Status NoWeights(const std::string& dir) {
  std::string message = StrCat(dir, ": neither ", kSingleFile, " nor ", kIndexFile, " is there");
  for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!FileExists(dir + "/" + pickle)) continue;
    message +=
        StrCat(" (", pickle, " is, but pickle files can run code and are not read; save the ",
               "model with safe_serialization=True)");
    break;
  }
  // As AutoGPTQ calls its files.
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".safetensors") continue;
    message += StrCat(" (", JsonQuote(it->path().filename().string()),
                      " is: if it has all of the model, call it ", kSingleFile, ")");
    break;
  }
  return NotFound(message);
}

// The shard in which each tensor was found.
Status AddShard(const std::string& name, const SafetensorsFile& file, WeightMap* found,
                TensorMap* tensors) {
  for (const auto& [tensor, view] : file.tensors()) {
    const auto [where, is_new] = found->emplace(tensor, name);
    if (!is_new) {
      return InvalidArgument(
          StrCat("tensor ", JsonQuote(tensor), " is in both ", where->second, " and ", name));
    }
    tensors->emplace(tensor, view);
  }
  return OkStatus();
}

Status OtherShape(const std::string& name, const Shape& found, const Shape& expected) {
  return InvalidArgument(StrCat("tensor ", JsonQuote(name), " has shape ", ToString(found),
                                ", expected ", ToString(expected)));
}

}  // namespace

StatusOr<Checkpoint> Checkpoint::Open(const std::string& model_dir) {
  Checkpoint checkpoint;
  if (FileExists(model_dir + "/" + kSingleFile)) {
    ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(model_dir + "/" + kSingleFile));
    checkpoint.tensors_ = file.tensors();
    checkpoint.files_.push_back(std::move(file));
    return checkpoint;
  }
  const std::string index_path = model_dir + "/" + kIndexFile;
  if (!FileExists(index_path)) return NoWeights(model_dir);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(index_path, kMaxIndexBytes));
  const StatusOr<WeightMap> listed = ParseIndex(text);
  if (!listed.ok()) return Annotate(listed.status(), index_path);
  if (Status status = checkpoint.OpenShards(model_dir, *listed); !status.ok()) {
    return Annotate(status, index_path);
  }
  return checkpoint;
}

Status Checkpoint::OpenShards(const std::string& model_dir, const WeightMap& listed) {
  std::map<std::string, std::string> shards;  // as a set; the mapped value is the path
  for (const auto& [tensor, shard] : listed) shards.emplace(shard, model_dir + "/" + shard);
  WeightMap found;
  for (const auto& [shard, path] : shards) {
    ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
    RETURN_IF_ERROR(AddShard(shard, file, &found, &tensors_));
    files_.push_back(std::move(file));
  }
  for (const auto& [tensor, shard] : listed) {
    const auto where = found.find(tensor);
    if (where == found.end() || where->second != shard) {
      return InvalidArgument(StrCat("tensor ", JsonQuote(tensor), " is listed in ", shard,
                                    " but is ",
                                    where == found.end() ? "in no shard" : "in " + where->second));
    }
  }
  return OkStatus();
}

Status Checkpoint::Missing(const std::string& name) const {
  constexpr std::string_view kWeight = ".weight";
  std::string message = StrCat("tensor ", JsonQuote(name), " is missing");
  for (const std::string_view part : {".qweight", ".weight_packed"}) {
    if (!name.ends_with(kWeight)) break;
    const std::string quantized =
        StrCat(std::string_view(name).substr(0, name.size() - kWeight.size()), part);
    if (!tensors_.contains(quantized)) continue;
    message += StrCat("; ", JsonQuote(quantized),
                      " is there, but config.json has no quantization_config of its kind");
  }
  return InvalidArgument(message);
}

StatusOr<WeightView> Checkpoint::GetMatrix(const std::string& name, const Shape& shape) const {
  const auto it = matrices_.find(name);
  if (it == matrices_.end()) {
    ASSIGN_OR_RETURN(TensorView tensor, Get(name, shape));
    return WeightView(std::move(tensor));
  }
  const Shape found = ShapeOf(it->second);
  if (found != shape) return OtherShape(name, found, shape);
  return it->second;
}

StatusOr<TensorView> Checkpoint::Get(const std::string& name, const Shape& shape) const {
  if (matrices_.contains(name)) {
    return InvalidArgument(
        StrCat("tensor ", JsonQuote(name), " is quantized, and must be F32, BF16 or F16"));
  }
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return Missing(name);
  const TensorView& tensor = it->second;
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16) {
    const bool has_scale = tensors_.contains(name + "_scale") ||
                           tensors_.contains(name + "_scale_inv") ||
                           tensors_.contains(name + ".absmax");
    return InvalidArgument(
        StrCat("tensor ", JsonQuote(name), " has dtype ", tensor.dtype,
               "; weights must be F32, BF16 or F16",
               has_scale ? ", or config.json have a quantization_config of their kind" : ""));
  }
  if (tensor.shape != shape) return OtherShape(name, tensor.shape, shape);
  return tensor;
}

}  // namespace aril

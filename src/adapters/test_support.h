// Odd and broken checkpoints and adapters for tests, made by rewriting the goldens, and adapters of
// random weights.

#ifndef ARIL_ADAPTERS_TEST_SUPPORT_H_
#define ARIL_ADAPTERS_TEST_SUPPORT_H_

#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"

namespace aril {

// A safetensors file in memory, to be changed and written back.
struct EditableTensors {
  struct Tensor {
    DType dtype = DType::kF32;
    Shape shape;
    std::vector<std::byte> bytes;

    static Tensor Filled(const Shape& shape, float value) {
      const std::vector<float> values(
          static_cast<size_t>(TensorView{nullptr, DType::kF32, shape}.num_elements()), value);
      const auto bytes = std::as_bytes(std::span(values));
      return {DType::kF32, shape, {bytes.begin(), bytes.end()}};
    }
    // Of an F32 tensor.
    void Set(size_t index, float value) {
      CHECK(dtype == DType::kF32);
      CHECK_LE((index + 1) * sizeof(value), bytes.size());
      std::memcpy(bytes.data() + index * sizeof(value), &value, sizeof(value));
    }
  };

  static EditableTensors Read(const std::string& path) {
    auto file = SafetensorsFile::Open(path);
    CHECK(file.ok());
    EditableTensors result;
    for (const auto& [name, view] : file->tensors()) {
      result.tensors[name] = {view.dtype, view.shape, {view.data, view.data + view.size_bytes()}};
    }
    return result;
  }

  void Write(const std::string& path) const {
    std::vector<SafetensorsWriter::Declaration> declarations;
    for (const auto& [name, tensor] : tensors)
      declarations.push_back({name, tensor.dtype, tensor.shape});
    auto writer = SafetensorsWriter::Create(path, declarations, {});
    CHECK(writer.ok());
    for (const auto& [name, tensor] : tensors) CHECK(writer->Append(tensor.bytes).ok());
    CHECK(writer->Finish().ok());
  }

  std::map<std::string, Tensor> tensors;
};

// Rewrites a safetensors file in place.
template <typename Edit>
void EditTensors(const std::string& path, const Edit& edit) {
  EditableTensors file = EditableTensors::Read(path);
  edit(file.tensors);
  file.Write(path);
}

inline void CutPrefix(const std::string& prefix, const std::string& by, const std::string& path) {
  EditTensors(path, [&](std::map<std::string, EditableTensors::Tensor>& tensors) {
    std::map<std::string, EditableTensors::Tensor> renamed;
    for (auto& [name, tensor] : tensors) {
      CHECK(name.starts_with(prefix));
      renamed[by + name.substr(prefix.size())] = std::move(tensor);
    }
    tensors = std::move(renamed);
  });
}

// Makes a copy of a golden model, of one file, the model's decoder alone, as embedding models are
// saved; and an adapter's folder one that was trained on such a model.
inline void MakeDecoderAlone(const std::string& model_dir) {
  const std::string weights = model_dir + "/model.safetensors";
  EditTensors(weights, [](auto& tensors) { tensors.erase("lm_head.weight"); });
  CutPrefix("model.", "", weights);
  const std::string path = model_dir + "/config.json";
  auto config = ReadFile(path, 1 << 20);
  CHECK(config.ok());
  const std::string with_head = "ForCausalLM";
  const size_t at = config->find(with_head);
  CHECK(at != std::string::npos);
  const bool is_gemma3 = config->find("Gemma3ForCausalLM") != std::string::npos;
  config->replace(at, with_head.size(), is_gemma3 ? "TextModel" : "Model");
  std::ofstream(path) << *config;
}
inline void MakeAdapterOfDecoder(const std::string& adapter_dir) {
  CutPrefix("base_model.model.model.", "base_model.model.",
            adapter_dir + "/adapter_model.safetensors");
}

// An adapter in an existing folder, of rank 4: of all modules of each layer, but for experts. It is
// as large as to change what the model says.
inline void WriteRandomAdapter(const std::string& dir, const ModelSpec& spec, bool use_dora,
                               uint64_t seed) {
  constexpr int64_t kRank = 4;
  std::mt19937_64 random(seed);
  EditableTensors file;
  const auto add = [&](const std::string& name, const Shape& shape, float low, float high) {
    std::uniform_real_distribution<float> values(low, high);
    auto tensor = EditableTensors::Tensor::Filled(shape, 0);
    for (size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i) tensor.Set(i, values(random));
    file.tensors[name] = std::move(tensor);
  };
  std::set<std::string> targets;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const LinearModule& module : spec.LinearModules(layer)) {
      if (spec.experts && !module.path.starts_with("self_attn.")) continue;
      targets.insert(std::string(Name(module)));
      const std::string prefix =
          StrCat("base_model.model.model.layers.", layer, ".", module.path, ".lora_");
      add(prefix + "A.weight", {kRank, spec.InFeatures(module)}, -0.3f, 0.3f);
      add(prefix + "B.weight", {spec.OutFeatures(module), kRank}, -0.3f, 0.3f);
      if (use_dora) add(prefix + "magnitude_vector", {spec.OutFeatures(module)}, 0.5f, 2);
    }
  }
  file.Write(dir + "/adapter_model.safetensors");
  std::ofstream(dir + "/adapter_config.json")
      << Json(Json::Object{{"peft_type", "LORA"},
                           {"r", kRank},
                           {"lora_alpha", kRank},
                           {"use_dora", use_dora},
                           {"target_modules", Json::Array(targets.begin(), targets.end())}})
             .Dump();
}

// Replaces text in a file; it must be there.
inline void ReplaceInFile(const std::string& path, const std::string& from, const std::string& to) {
  std::ifstream in(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(in)), {});
  const size_t at = content.find(from);
  CHECK(at != std::string::npos);
  std::ofstream(path, std::ios::binary) << content.replace(at, from.size(), to);
}

}  // namespace aril

#endif  // ARIL_ADAPTERS_TEST_SUPPORT_H_

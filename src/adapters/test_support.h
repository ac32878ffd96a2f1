// Odd and broken checkpoints and adapters for tests, made by rewriting the goldens.

#ifndef ARIL_ADAPTERS_TEST_SUPPORT_H_
#define ARIL_ADAPTERS_TEST_SUPPORT_H_

#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/test_dir.h"
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

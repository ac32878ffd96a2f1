// The safetensors format: 8 bytes little-endian header length, a JSON header, then the tensors'
// bytes. Source: the format section of the safetensors README and its reference implementation's
// checks.

#ifndef ARIL_TENSOR_SAFETENSORS_H_
#define ARIL_TENSOR_SAFETENSORS_H_

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/folder.h"
#include "base/status.h"
#include "tensor/tensor.h"
#include "tensor/weight_view.h"

namespace aril {

// Tensors by name; the views point into the parsed bytes.
using TensorMap = std::map<std::string, TensorView, std::less<>>;
// Matrices by name that are no tensors.
using MatrixMap = std::map<std::string, WeightView, std::less<>>;

struct Safetensors {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
};

// Reads the header of a whole file in memory and enforces the format: header length within the file
// and ≤ 100 MB, strict UTF-8 JSON object, string-only `__metadata__`, known dtypes, sizes that
// match shapes without overflow, and offsets that cover the data section from 0 to its exact end
// without gap or overlap. InvalidArgument says what is wrong; a Git LFS pointer is named as such.
StatusOr<Safetensors> ParseSafetensors(std::span<const std::byte> file);

// A file mapped into memory with its parsed header. The views live as long as this object.
class SafetensorsFile {
 public:
  static StatusOr<SafetensorsFile> Open(const std::string& path);
  static StatusOr<SafetensorsFile> Open(const Folder& folder, const std::string& name);
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  bool is_intact() const { return file_.is_intact(); }
  const TensorMap& tensors() const { return content_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return content_.metadata; }

 private:
  // `path` stands in errors.
  static StatusOr<SafetensorsFile> Parse(MappedFile file, const std::string& path);

  MappedFile file_;
  Safetensors content_;
};

// The weights of a model directory: `model.safetensors`, or the shards that
// `model.safetensors.index.json` lists (every listed tensor must be where the index says; shard
// names must be plain file names of the same directory).
class Checkpoint {
 public:
  static StatusOr<Checkpoint> Open(const std::string& model_dir);
  // All tensors of all shards.
  const TensorMap& tensors() const { return tensors_; }
  // Those that are quantized, which several tensors stood for, or that lie strewn over one, by the
  // names that they would have.
  const MatrixMap& matrices() const { return matrices_; }
  // The tensor of that name, dtype F32, BF16 or F16, with exactly this shape; else an
  // InvalidArgument that names tensor, found and expected.
  StatusOr<TensorView> Get(const std::string& name, const Shape& shape) const;
  // Likewise, also if it is one of matrices().
  StatusOr<WeightView> GetMatrix(const std::string& name, const Shape& shape) const;
  // Has these from now on: its own by other names, parts of them, or what they stand for.
  void ShowAs(TensorMap tensors, MatrixMap matrices) {
    tensors_ = std::move(tensors);
    matrices_ = std::move(matrices);
  }

 private:
  Status Missing(const std::string& name) const;
  // `listed`: tensor name → file name of its shard.
  Status OpenShards(const std::string& model_dir, const std::map<std::string, std::string>& listed);

  std::vector<SafetensorsFile> files_;
  TensorMap tensors_;
  MatrixMap matrices_;
};

// Writes a safetensors file: declare every tensor, then stream their bytes in the declared order.
// Used by `aril synth` and tests; never holds more than one piece in memory. Until Finish()
// succeeds the file is called `path`.partial; an unfinished writer removes it.
class SafetensorsWriter {
 public:
  struct Declaration {
    std::string name;
    DType dtype;
    Shape shape;
  };
  static StatusOr<SafetensorsWriter> Create(const std::string& path,
                                            const std::vector<Declaration>& tensors,
                                            const std::map<std::string, std::string>& metadata);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&& other) noexcept;
  ~SafetensorsWriter();

  // The next bytes of the data section.
  Status Append(std::span<const std::byte> bytes);
  // Fails unless exactly the declared number of bytes was appended.
  Status Finish();

 private:
  SafetensorsWriter() = default;
  int fd_ = -1;
  std::string path_;
  size_t remaining_bytes_ = 0;
};

}  // namespace aril

#endif  // ARIL_TENSOR_SAFETENSORS_H_

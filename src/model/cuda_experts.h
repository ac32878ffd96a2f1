// The mixtures of experts of a model on a GPU: from the scores of a layer's router to what its
// experts give.
//
// Which rows go to which expert only the device knows: a step's launches are the same whatever the
// scores are, and so are its graphs.

#ifndef ARIL_MODEL_CUDA_EXPERTS_H_
#define ARIL_MODEL_CUDA_EXPERTS_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/lora/expert_lora_cuda.h"
#include "model/cuda_weights.h"
#include "spec/model_spec.h"

namespace aril {

class CudaExperts {
 public:
  // What `spec` asks for and this has not: InvalidArgument, naming it.
  static Status Supports(const ModelSpec& spec);

  // Rows whose experts are computed at a time, at most. Each of these is several places, whose
  // results are wide: of so many rows of Qwen3-30B-A3B 160 MB. The weights are read again for every
  // such chunk, but then each of them is used for a hundred rows or more.
  static constexpr int32_t kMaxChunkRows = 2048;

  // Of a model, which is one of experts or not; both must outlive this.
  CudaExperts(kernels::CudaDevice& device, const ModelSpec& spec, DType dtype)
      : device_(device), spec_(spec), dtype_(dtype) {}

  // Memory for launches of up to `max_rows` rows: none without experts.
  static size_t SizeBytes(const ModelSpec& spec, DType dtype, int64_t max_rows);
  Status Reserve(int64_t max_rows);

  // Of steps of `rows` rows that have at most so many adapters of experts each: how many go at a
  // time, so that V is not too large, and how many floats it is then.
  static int32_t ChunkRows(const ModelSpec& spec, int32_t rows, int32_t max_entries,
                           int32_t max_rank);
  static int64_t VFloats(const ModelSpec& spec, int32_t rows, int32_t max_entries,
                         int32_t max_rank);

  // The router's, fp32 [max_rows, experts].
  float* logits() const { return logits_.as<float>(); }

  // What adapters add: of a step in which some change experts.
  struct Adapters {
    const kernels::ExpertLoraTables* tables = nullptr;  // null: nothing
    int32_t max_rank = 0;                               // at least theirs
    float* v = nullptr;                                 // [VFloats]
  };
  struct Args {
    int64_t layer = 0;
    const std::byte* x = nullptr;        // [rows, hidden] in the dtype
    int32_t rows = 0;                    // of the launch
    const int32_t* num_rows = nullptr;   // on the device: of these, those that there are
    float* out = nullptr;                // fp32 [rows, hidden]
    int32_t chunk_rows = kMaxChunkRows;  // at most; with adapters, ChunkRows
    Adapters adapters;
  };
  // out = what a layer's experts make of x, by logits().
  Status Run(const DeviceWeights::Layer& weights, const Args& args);

 private:
  struct Sizes;
  static Sizes SizesOf(const ModelSpec& spec, DType dtype, int64_t max_rows);
  // Some of the rows, from `first` on.
  struct Chunk {
    int32_t first = 0;
    int32_t rows = 0;
  };
  // A product of places with the experts' matrices, [out_i, in] one below the other for each, of
  // sites from `first` on.
  struct Product {
    const DeviceMatrix& w;
    const float* bias;  // [experts, out], or null
    Projection first;
    int32_t num_targets;
    const std::byte* x;
    bool x_of_rows;  // x has the chunk's rows; else one for each place
  };
  Status RunChunk(const DeviceWeights::Layer& weights, const Args& args, const Chunk& chunk);
  Status FindTiles(const Args& args, const Chunk& chunk);
  // Into output_, without what adapters add.
  Status RunProduct(const Chunk& chunk, const Product& product);
  // Into output_, with what adapters add.
  Status Multiply(const Args& args, const Chunk& chunk, const Product& product);
  kernels::ExpertPlaces PlacesOf(const Chunk& chunk) const;

  kernels::CudaDevice& device_;
  const ModelSpec& spec_;
  DType dtype_;
  kernels::DeviceBuffer logits_;
  kernels::DeviceBuffer chosen_, row_weights_;  // [max_rows, per_token]: int32, fp32
  // Of a chunk's rows and places (kernels/experts/experts_cuda.h).
  kernels::DeviceBuffer first_places_, place_rows_, places_;  // int32
  kernels::DeviceBuffer lora_tiles_, lora_counts_;            // of the adapters' part
  kernels::DeviceBuffer output_;     // fp32 [places, wider of an expert's two outputs]
  kernels::DeviceBuffer activated_;  // [places, intermediate] in the dtype
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_EXPERTS_H_

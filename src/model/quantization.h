// What `--quantization` chooses: in which format each matrix is kept.

#ifndef ARIL_MODEL_QUANTIZATION_H_
#define ARIL_MODEL_QUANTIZATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/gemm/gemm.h"
#include "model/matrix_parts.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"
#include "tensor/weight_view.h"

namespace aril {

// How many bits the weights of the layers have that a checkpoint has as numbers.
enum class Quantization { kNone, kInt8, kInt4, kNf4 };

// "none", "int8", "int4", "nf4".
std::string_view Name(Quantization quantization);

// With kNf4, has codes in place of the numbers of the layers' matrices, as if bitsandbytes had
// saved them; else does nothing. Whoever reads the checkpoint later sees them so: it comes before
// all else. Matrices that are not there, or have another shape, are left for who needs them.
void RoundLayers(const ModelSpec& spec, Quantization quantization, Checkpoint* checkpoint);

// How a matrix of numbers is kept beside activations of `dtype` (F32 or BF16): a layer's in so many
// bits; a router, and what decides how linear attention forgets, as they are (of the latter
// RoundLayers has made codes, as bitsandbytes does); lm_head too, but in bytes where the layers
// have four bits, of which it would be half of what a small model reads.
kernels::WeightFormat FormatFor(MatrixRole role, DType dtype, Quantization quantization);

// The format of a product's `matrices`, each of its parts, all of them in one: what is quantized
// stays what it is as far as it can (LoadWeights), and what has numbers is rounded as FormatFor
// says (of kNf4, RoundLayers has done it). Nothing: they are kept in the model's dtype.
std::optional<kernels::WeightFormat> QuantizedFormatOf(
    MatrixRole role, const std::vector<std::vector<WeightView>>& matrices,
    Quantization quantization);
// Logs how many matrices that have quantized parts are kept in `dtype`, if any are.
void LogWidened(int64_t num_widened, DType dtype);

// That of `--quantization`. InvalidArgument for what is no name of one, and for a matrix of `spec`
// that is too large for bytes to be added in 32 bits, or has no whole blocks of NF4; and of NF4 for
// a mixture, of which bitsandbytes rounds what transformers' version has as modules.
StatusOr<Quantization> ChooseQuantization(const std::string& option, const ModelSpec& spec);

}  // namespace aril

#endif  // ARIL_MODEL_QUANTIZATION_H_

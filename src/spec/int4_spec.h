// Which matrices of four bits a checkpoint has: "quantization_config" of config.json.

#ifndef ARIL_SPEC_INT4_SPEC_H_
#define ARIL_SPEC_INT4_SPEC_H_

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "base/status.h"
#include "tensor/int4_view.h"

namespace aril {

// Of all modules that are quantized; which ones are, their tensors say.
struct Int4Spec {
  Int4View::Layout layout = Int4View::Layout::kGptq;
  // Inputs that share a scale and a zero point; absent: all of an output.
  std::optional<int64_t> group_size;
  // GPTQ's first format: zero points are stored less 1; if known to be, as one number of 32 bits
  // less 0x11111111, so that what borrows says what it was.
  bool zeros_less_one = false;
  bool zeros_borrow = false;
  // Modules must have zero points, and say which group each input is of.
  bool has_zeros = true;
  bool has_order = false;
};

namespace internal {

// Of "quantization_config", or "compression_config" as compressed-tensors called it; nullopt if
// both are absent. Unimplemented for every method, format and width that is not one of Int4View's,
// and for whatever rounds more than weights or changes what they are multiplied with.
// Sources: transformers, utils/quantization_config.py; AutoGPTQ, BaseQuantizeConfig; GPTQModel,
// quantization/config.py; AutoAWQ, AwqConfig; compressed-tensors, quantization/quant_config.py.
StatusOr<std::optional<Int4Spec>> ReadInt4(const Json& config);

}  // namespace internal
}  // namespace aril

#endif  // ARIL_SPEC_INT4_SPEC_H_

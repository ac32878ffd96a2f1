// How a checkpoint is quantized: "quantization_config" of config.json.

#ifndef ARIL_SPEC_QUANTIZED_SPEC_H_
#define ARIL_SPEC_QUANTIZED_SPEC_H_

#include <cstdint>
#include <optional>
#include <variant>

#include "base/json.h"
#include "base/status.h"
#include "tensor/int4_view.h"

namespace aril {

// Of all modules that are quantized, to four bits; which ones are, their tensors say.
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

  bool operator==(const Int4Spec&) const = default;
};

// The same of those that are quantized to bytes, with a scale for each output, and whose inputs are
// to be rounded to bytes, each row by its largest.
struct Int8Spec {
  bool operator==(const Int8Spec&) const = default;
};

// The same of those that are quantized to floats of eight bits. How activations and KV are meant to
// be rounded is not kept: they are not (docs/decisions/048).
struct Float8Spec {
  // Of neighbours that share a scale; absent: each output has one, or all have the same, or blocks
  // are of transformers' size, as the shape of a module's scales says.
  struct Block {
    int64_t outputs = 0;
    int64_t inputs = 0;

    bool operator==(const Block&) const = default;
  };
  std::optional<Block> block;

  bool operator==(const Float8Spec&) const = default;
};

// The same of those that are quantized to codes of four bits, whose tensors say what these stand
// for.
struct Codebook4Spec {
  bool operator==(const Codebook4Spec&) const = default;
};

// The same of experts that are quantized to MXFP4.
struct Mxfp4Spec {
  bool operator==(const Mxfp4Spec&) const = default;
};

using QuantizedSpec = std::variant<Int4Spec, Int8Spec, Float8Spec, Codebook4Spec, Mxfp4Spec>;

namespace internal {

// Of "quantization_config", or "compression_config" as compressed-tensors called it; nullopt if
// both are absent. Unimplemented for every method, format and width that is not one of Int4View's,
// Int8View's, Float8View's or Codebook4View's, and for whatever rounds more than these, but for
// activations and KV beside FP8, or changes what they are multiplied with. Sources: transformers,
// utils/quantization_config.py; AutoGPTQ, BaseQuantizeConfig; GPTQModel, quantization/config.py;
// AutoAWQ, AwqConfig; AutoFP8, BaseQuantizeConfig; compressed-tensors,
// quantization/quant_config.py.
StatusOr<std::optional<QuantizedSpec>> ReadQuantized(const Json& config);

}  // namespace internal
}  // namespace aril

#endif  // ARIL_SPEC_QUANTIZED_SPEC_H_

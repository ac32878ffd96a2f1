// ParseSafetensors on any bytes: no view that it returns may leave them.

#include <span>

#include "base/check.h"
#include "tensor/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto parsed = aril::ParseSafetensors(file);
  if (!parsed.ok()) return 0;
  size_t total_bytes = 0;
  for (const auto& [name, tensor] : parsed->tensors) {
    CHECK_GE(tensor.num_elements(), 0);
    CHECK(tensor.data >= file.data());
    CHECK_LE(tensor.size_bytes(), static_cast<size_t>(file.data() + size - tensor.data));
    total_bytes += tensor.size_bytes();
    if (tensor.dtype == aril::DType::kBF16) static_cast<void>(aril::AllFinite(tensor));
  }
  CHECK_LE(total_bytes, size);
  return 0;
}

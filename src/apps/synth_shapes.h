// The sizes of well-known models.

#ifndef ARIL_APPS_SYNTH_SHAPES_H_
#define ARIL_APPS_SYNTH_SHAPES_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace aril {

// "tiny", "tinyllama-1.1b", …
std::vector<std::string> SynthShapeNames();

// A config.json of that shape, as transformers writes it. NotFound lists the names.
StatusOr<Json> SynthShapeConfig(std::string_view name, DType dtype);

}  // namespace aril

#endif  // ARIL_APPS_SYNTH_SHAPES_H_

// How long a sequence may be.

#ifndef ARIL_MODEL_MAX_MODEL_LEN_H_
#define ARIL_MODEL_MAX_MODEL_LEN_H_

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "spec/model_spec.h"

namespace aril {

// That of `--max-model-len`, without which it is as long as the model has positions, in tokens.
// InvalidArgument for more than those, or less than 1.
StatusOr<int64_t> ChooseMaxModelLen(std::optional<int64_t> option, const ModelSpec& spec);

}  // namespace aril

#endif  // ARIL_MODEL_MAX_MODEL_LEN_H_

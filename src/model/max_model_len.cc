#include "model/max_model_len.h"

#include "base/strings.h"

namespace aril {

StatusOr<int64_t> ChooseMaxModelLen(std::optional<int64_t> option, const ModelSpec& spec) {
  const int64_t positions = spec.max_position_embeddings;
  const int64_t chosen = option.value_or(positions);
  if (chosen >= 1 && chosen <= positions) return chosen;
  const char* what = "as many positions as the model has (max_position_embeddings)";
  if (spec.rope.scaling == RopeSpec::Scaling::kLongRope) {
    what =
        "the model's original_max_position_embeddings: for longer sequences LongRoPE has other "
        "frequencies, also of the tokens before, which is not supported";
  }
  return InvalidArgument(
      StrCat("--max-model-len is ", chosen, "; it must be from 1 to ", positions, ", ", what));
}

}  // namespace aril

// vLLM's --speculative-config, as far as Aril guesses tokens.

#ifndef ARIL_APPS_SPECULATIVE_CONFIG_H_
#define ARIL_APPS_SPECULATIVE_CONFIG_H_

#include <string>

#include "base/status.h"
#include "engine/drafts.h"

namespace aril {

// Without it: drafts from what requests say that their answers will be like.
DraftOptions PredictionsOnly();

// A JSON object: `method`, which is "ngram"; `num_speculative_tokens` (1 to 64; without it 8);
// `prompt_lookup_min` and `prompt_lookup_max` (1 to 32; without them DraftOptions' own).
// InvalidArgument names the key that is wrong.
StatusOr<DraftOptions> ParseSpeculativeConfig(const std::string& text);

}  // namespace aril

#endif  // ARIL_APPS_SPECULATIVE_CONFIG_H_

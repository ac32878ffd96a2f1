// vLLM's --speculative-config, as far as Aril guesses tokens.

#ifndef ARIL_APPS_SPECULATIVE_CONFIG_H_
#define ARIL_APPS_SPECULATIVE_CONFIG_H_

#include <string>

#include "base/status.h"
#include "engine/drafts.h"

namespace aril {

// Without it: drafts from what requests say that their answers will be like.
DraftOptions PredictionsOnly();

// A JSON object: `method`, which is "ngram" (which vLLM also takes as `model`);
// `num_speculative_tokens` (0 to 11; without it 8; 0: there are no drafts, from predictions
// neither); `prompt_lookup_min` and `prompt_lookup_max` (1 to 32; without them DraftOptions' own,
// or the other one where that leaves no room). InvalidArgument names the key that is wrong.
StatusOr<DraftOptions> ParseSpeculativeConfig(const std::string& text);

}  // namespace aril

#endif  // ARIL_APPS_SPECULATIVE_CONFIG_H_

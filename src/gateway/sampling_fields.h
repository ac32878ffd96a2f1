// How the tokens of an answer are to be chosen: OpenAI's fields, and vLLM's (docs/api.md lists
// them).

#ifndef ARIL_GATEWAY_SAMPLING_FIELDS_H_
#define ARIL_GATEWAY_SAMPLING_FIELDS_H_

#include "gateway/json_fields.h"
#include "gateway/model_text.h"
#include "spec/generation_config.h"
#include "wire/sampling.h"

namespace aril::gateway {

// All but the seed and what is reported. Errors stay in `fields`.
void ReadSampling(JsonFields& fields, const GenerationDefaults& defaults, const ModelText& text,
                  wire::SamplingParams* sampling);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_SAMPLING_FIELDS_H_

// The `post_processor` of a tokenizer.json: what goes around an encoded text.

#ifndef ARIL_TOKENIZER_POST_PROCESSOR_H_
#define ARIL_TOKENIZER_POST_PROCESSOR_H_

#include <string>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/pipeline.h"

namespace aril {

// Reads it; `where` names it in errors. Null gives nothing around the text. Implemented:
// TemplateProcessing (of single texts), BertProcessing, RobertaProcessing, ByteLevel (which only
// concerns offsets) and Sequence; any other type is Unimplemented.
StatusOr<PostProcessor> ReadPostProcessor(const Json& json, const std::string& where);

}  // namespace aril

#endif  // ARIL_TOKENIZER_POST_PROCESSOR_H_

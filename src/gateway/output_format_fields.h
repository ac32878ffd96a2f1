// What a request asks its output to be: OpenAI's `response_format` (of responses: `text`),
// Anthropic's `output_config`, vLLM's `structured_outputs` and its older `guided_…` fields,
// llama-server's `json_schema` (docs/api.md lists them).

#ifndef ARIL_GATEWAY_OUTPUT_FORMAT_FIELDS_H_
#define ARIL_GATEWAY_OUTPUT_FORMAT_FIELDS_H_

#include <string>
#include <vector>

#include "gateway/completion_request.h"
#include "gateway/json_fields.h"
#include "gateway/served_model.h"
#include "wire/messages.h"

namespace aril::gateway {

// Reads `common->format`, which stands beside `common->min_tokens`, which must have been read.
// Returns the field that asks for it, if one does. Errors stay in `fields`.
std::string ReadOutputFormat(JsonFields& fields, Endpoint endpoint, wire::SequenceRequest* common);

// A field of the request that excludes a format of the output, and tools; else null. Why, in words
// that come behind both.
const char* ExcludedByFormats(const wire::SequenceRequest& request);
inline constexpr const char* kWhyExcluded = ": that says what may come, and when it is complete";

// Whether what a field asks for can be kept to, if it is not any text: takes time. `text`: of the
// adapter, or the base model's.
void CheckOutputFormat(const std::string& field, const wire::OutputFormat& format,
                       const ServedModel& model, const ModelText& text, JsonFields& fields);

// The regular expression (grammar/regex.h) of these texts and nothing else.
std::string RegexOfChoices(const std::vector<std::string>& choices);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_OUTPUT_FORMAT_FIELDS_H_

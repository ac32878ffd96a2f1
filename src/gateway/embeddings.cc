#include "gateway/embeddings.h"

#include <string>

#include "base/strings.h"
#include "gateway/generation_fields.h"
#include "gateway/json_fields.h"
#include "gateway/texts_input.h"

namespace aril::gateway {
namespace {

// Of vLLM's ways to write numbers down, those that are ours.
struct NumbersForm {
  std::string_view field;
  const char* why;
  std::string_view ours, also_ours = "";
};
constexpr NumbersForm kNumbersForms[] = {
    {"embed_dtype", "numbers are float32", "float32"},
    {"endianness", "numbers are little-endian", "little", "native"},
};

EmbeddingForm ReadForm(JsonFields& fields, const ServedModel& model) {
  EmbeddingForm form;
  const int64_t hidden_size = model.spec.hidden_size;
  form.dimensions = fields.GetInt("dimensions", hidden_size, 1, hidden_size);
  form.normalize = fields.GetBool("normalize", model.embedding->normalize);
  form.normalize = fields.GetBool("use_activation", form.normalize);  // as newer vLLMs call it
  const std::string encoding = fields.GetString("encoding_format", "float");
  form.as_base64 = encoding == "base64";
  if (encoding != "float" && encoding != "base64") {
    fields.Fail("encoding_format", "must be \"float\" or \"base64\"");
  }
  for (const NumbersForm& numbers : kNumbersForms) {
    const Json* const value = fields.Find(numbers.field);
    const bool is_ours =
        AsksForNothing(value) || IsText(value, numbers.ours) || IsText(value, numbers.also_ours);
    if (!is_ours) fields.Fail(numbers.field, StrCat("is not supported here: ", numbers.why));
  }
  return form;
}

}  // namespace

ApiResult<CompletionRequest> ParseEmbeddingsRequest(std::string_view body,
                                                    const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  CompletionRequest request = {.endpoint = Endpoint::kEmbeddings};
  request.common.pooling = wire::Pooling::kEmbedding;
  if (auto error = ResolveModel(fields, context, &request)) return *error;
  const auto& embedding = context.model.embedding;
  if (!embedding.ok()) return FromStatus(embedding.status());
  request.embedding = ReadForm(fields, context.model);
  if (auto error = ReadTexts(fields, context, request.embedding->dimensions, &request))
    return *error;
  return request;
}

}  // namespace aril::gateway

#include "gateway/embeddings.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gateway/generation_fields.h"
#include "gateway/json_fields.h"
#include "gateway/prompt_tokens.h"

namespace aril::gateway {
namespace {

// What vLLM has, or other endpoints, and would give other answers than without it.
constexpr std::pair<std::string_view, const char*> kUnsupported[] = {
    {"messages", "give texts in `input`"},
    {"stream", "an answer comes as a whole"},
    {"truncate_prompt_tokens", "what is too long is refused"}};

void RefuseUnsupported(JsonFields& fields) {
  for (const auto& [name, why] : kUnsupported) {
    if (!AsksForNothing(fields.Find(name))) {
      fields.Fail(name, StrCat("is not supported here: ", why));
    }
  }
}

EmbeddingForm ReadForm(JsonFields& fields, const ServedModel& model) {
  EmbeddingForm form;
  const int64_t hidden_size = model.spec.hidden_size;
  form.dimensions = fields.GetInt("dimensions", hidden_size, 1, hidden_size);
  form.normalize = fields.GetBool("normalize", model.embedding->normalize);
  const std::string encoding = fields.GetString("encoding_format", "float");
  form.as_base64 = encoding == "base64";
  if (encoding != "float" && encoding != "base64") {
    fields.Fail("encoding_format", "must be \"float\" or \"base64\"");
  }
  return form;
}

std::optional<ApiError> CheckNumInputs(size_t num_inputs, int64_t dimensions) {
  if (num_inputs == 0) return InvalidField("input", "`input` must not be empty.");
  const auto max_inputs =
      std::min(kMaxEmbeddingInputs, static_cast<size_t>(kMaxEmbeddingNumbers / dimensions));
  if (num_inputs <= max_inputs) return std::nullopt;
  return InvalidField(
      "input", StrCat("`input` has ", num_inputs, " texts, more than the ", max_inputs,
                      " that one request may have for embeddings of ", dimensions, " numbers."));
}

}  // namespace

ApiResult<CompletionRequest> ParseEmbeddingsRequest(std::string_view body,
                                                    const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  CompletionRequest request = {.endpoint = Endpoint::kEmbeddings};
  if (auto error = ResolveModel(fields, context, &request)) return *error;
  const ServedModel& model = context.model;
  if (!model.embedding.ok()) return FromStatus(model.embedding.status());
  request.embedding = ReadForm(fields, model);
  request.common.wants_embedding = true;
  const bool add_special_tokens = fields.GetBool("add_special_tokens", true);
  RefuseUnsupported(fields);
  if (!fields.ok()) return *fields.error();

  const Json* input = fields.Find("input");
  if (input == nullptr) return InvalidField("input", "`input` is required.");
  const std::vector<const Json*> items = PromptItems(*input);
  if (auto error = CheckNumInputs(items.size(), request.embedding->dimensions)) return *error;
  for (const Json* item : items) {
    auto tokens = ReadPromptItem(model, *item, add_special_tokens, "input");
    if (!tokens.ok()) return tokens.error();
    // Before the next one is read: a list of long ones ends with the first that is too long.
    const auto resolved = ResolveMaxTokens(static_cast<int64_t>(tokens.value().size()), 0, 0,
                                           model.max_model_len, "input");
    if (!resolved.ok()) return resolved.error();
    request.prompts.push_back({.tokens = std::move(tokens.value())});
  }
  return request;
}

}  // namespace aril::gateway

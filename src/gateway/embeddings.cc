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

// What vLLM has, or other endpoints, and would give other answers than without it; and what asks
// for nothing else than there is.
struct Unsupported {
  std::string_view name;
  const char* why;
  std::string_view neutral = "", also_neutral = "";
};
constexpr Unsupported kUnsupported[] = {
    {"messages", "give texts in `input`"},
    {"stream", "an answer comes as a whole"},
    {"embed_dtype", "numbers are float32", "float32"},
    {"endianness", "numbers are little-endian", "little", "native"},
};

void RefuseUnsupported(JsonFields& fields) {
  for (const Unsupported& field : kUnsupported) {
    const Json* const value = fields.Find(field.name);
    const bool is_neutral =
        AsksForNothing(value) || IsText(value, field.neutral) || IsText(value, field.also_neutral);
    if (!is_neutral) fields.Fail(field.name, StrCat("is not supported here: ", field.why));
  }
  if (fields.GetInt("priority", 0, INT32_MIN, INT32_MAX) != 0) {
    fields.Fail("priority", "must be 0: requests are served first come, first served");
  }
}

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
  return form;
}

// Cutting a text is not done. A bound that it keeps is fine; -1 is vLLM's word for the context.
std::optional<ApiError> CheckIsWhole(int64_t num_tokens, std::optional<int64_t> max_tokens) {
  if (!max_tokens || *max_tokens == -1 || num_tokens <= *max_tokens) return std::nullopt;
  return InvalidField("truncate_prompt_tokens",
                      StrCat("A text has ", num_tokens, " tokens, and is not cut to ", *max_tokens,
                             " here: send a shorter one."));
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
  const auto cut_to = fields.FindInt("truncate_prompt_tokens", -1, INT32_MAX);
  RefuseUnsupported(fields);
  if (!fields.ok()) return *fields.error();

  const Json* input = fields.Find("input");
  if (input == nullptr) return InvalidField("input", "`input` is required.");
  const std::vector<const Json*> items = PromptItems(*input);
  if (auto error = CheckNumInputs(items.size(), request.embedding->dimensions)) return *error;
  for (const Json* item : items) {
    const bool is_one_of_many = items.size() > 1;
    const std::string name =
        is_one_of_many ? StrCat("input[", request.prompts.size(), "]") : "input";
    auto tokens = ReadPromptItem(model, *item, add_special_tokens, name);
    if (!tokens.ok()) return tokens.error();
    // Before the next one is read: a list of long ones ends with the first that is too long.
    const auto num_tokens = std::ssize(tokens.value());
    const auto resolved = ResolveMaxTokens(num_tokens, 0, 0, model.max_model_len, name);
    if (!resolved.ok()) return resolved.error();
    if (auto error = CheckIsWhole(num_tokens, cut_to)) return *error;
    request.prompts.push_back({.tokens = std::move(tokens.value())});
  }
  return request;
}

}  // namespace aril::gateway

#include "gateway/tokenize_api.h"

#include <utility>

#include "gateway/chat_completions.h"
#include "gateway/generation_fields.h"
#include "gateway/json_fields.h"
#include "gateway/prompt_tokens.h"

namespace aril::gateway {
namespace {

// `model` is optional here: without it, the base model's tokenizer and chat template are meant.
ApiResult<AdapterId> FindAdapter(JsonFields& fields, const RequestContext& context) {
  const std::string name = fields.GetString("model", "");
  if (!fields.ok()) return *fields.error();
  if (name.empty()) return kBaseModel;
  const auto entry = FindModel(name, fields, context);
  if (!entry.ok()) return entry.error();
  return entry.value()->adapter();
}

ApiResult<std::vector<int32_t>> EncodePrompt(JsonFields& fields, const RequestContext& context,
                                             AdapterId adapter) {
  const std::string prompt = fields.GetString("prompt", "");
  const bool add_special_tokens = fields.GetBool("add_special_tokens", true);
  if (fields.Find("prompt") == nullptr) fields.Fail("prompt", "or `messages` is required");
  if (!fields.ok()) return *fields.error();
  const ModelTextPtr text = context.model.TextOf(adapter);
  return EncodeText(context.model, *text, prompt, add_special_tokens, "prompt");
}

// vLLM's `token_strs`: the tokens as the vocabulary's file spells them.
void RefuseTokenTexts(JsonFields& fields) {
  if (!fields.GetBool("return_token_strs", false)) return;
  fields.Fail("return_token_strs", "is not supported by this server; /detokenize gives texts");
}

}  // namespace

ApiResult<Json> Tokenize(std::string_view body, const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  RefuseTokenTexts(fields);
  const auto adapter = FindAdapter(fields, context);
  if (!adapter.ok()) return adapter.error();
  const auto ids = fields.Find("messages") != nullptr
                       ? EncodeChat(fields, context, adapter.value())
                       : EncodePrompt(fields, context, adapter.value());
  if (!ids.ok()) return ids.error();
  Json::Array tokens;
  for (const int32_t id : ids.value()) tokens.push_back(id);
  return Json(Json::Object{{"count", static_cast<int64_t>(tokens.size())},
                           {"max_model_len", context.model.max_model_len},
                           {"tokens", std::move(tokens)}});
}

ApiResult<Json> Detokenize(std::string_view body, const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  const auto adapter = FindAdapter(fields, context);
  if (!adapter.ok()) return adapter.error();
  const ModelTextPtr text = context.model.TextOf(adapter.value());
  const std::vector<int32_t> tokens =
      fields.GetIntArray("tokens", 0, static_cast<int32_t>(text->vocab_size - 1));
  if (fields.Find("tokens") == nullptr) fields.Fail("tokens", "is required");
  if (!fields.ok()) return *fields.error();
  return Json(
      Json::Object{{"prompt", text->tokenizer->Decode(tokens, /*skip_special_tokens=*/false)}});
}

}  // namespace aril::gateway

#include "apps/served_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "spec/generation_config.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer.h"

namespace aril {
namespace {

using gateway::ChatDialectOr;

ChatDialectOr NoTemplate() {
  return NotFound(
      "This model has no chat template: start the server with --chat-template, or use "
      "/v1/completions.");
}

// What a folder's template, or what is wrong with it, means for chats with its model; nullopt if
// the folder has none.
std::optional<ChatDialectOr> Use(StatusOr<std::optional<ChatTemplate>> loaded) {
  if (loaded.ok() && !loaded->has_value()) return std::nullopt;
  if (loaded.ok()) return std::make_shared<const gateway::ChatDialect>(**std::move(loaded));
  LogWarning(StrCat("Chats with this model will be refused: ", Message(loaded.status())));
  // The reason names files of the server, which are no business of its clients.
  return ChatDialectOr(Unimplemented(
      "The chat template of this model cannot be used; the server's log says why. /v1/completions "
      "works without it."));
}

StatusOr<ChatDialectOr> ReadBaseTemplate(const TextSources& sources,
                                         const Json::Object& special_tokens) {
  if (sources.chat_template_file.empty()) {
    return Use(ChatTemplate::Load(sources.model_dir, special_tokens)).value_or(NoTemplate());
  }
  auto own = ChatTemplate::FromFile(sources.chat_template_file, special_tokens);
  if (!own.ok()) return Annotate(own.status(), "--chat-template");
  return ChatDialectOr(std::make_shared<const gateway::ChatDialect>(*std::move(own)));
}

StatusOr<GenerationDefaults> ReadGenerationDefaults(const TextSources& sources) {
  if (sources.generation_config == "vllm") return GenerationDefaults();
  ASSIGN_OR_RETURN(const GenerationConfig config, LoadGenerationConfig(sources.model_dir));
  if (!config.stated.empty()) {
    LogInfo(StrCat("The model's generation_config.json sets defaults of requests: ",
                   Join(config.stated, ", "), " (--generation-config vllm leaves them out)"));
  }
  if (!config.ignored.empty()) {
    LogWarning(StrCat("The model's generation_config.json has members that are ignored: ",
                      Join(config.ignored, ", ")));
  }
  return config.defaults;
}

Status RefuseEmbeddings(const Status& why) {
  LogWarning(StrCat("Requests for embeddings of this model will be refused: ", Message(why)));
  // The reason names files of the server, which are no business of its clients.
  return Unimplemented(
      "The embeddings of this model are not made as this server makes them; its log says why.");
}

}  // namespace

StatusOr<gateway::ServedModel> ReadServedModel(const TextSources& sources) {
  gateway::ServedModel model;
  ASSIGN_OR_RETURN(model.generation_defaults, ReadGenerationDefaults(sources));
  model.embedding = LoadEmbeddingSpec(sources.model_dir);
  if (!model.embedding.ok()) model.embedding = RefuseEmbeddings(model.embedding.status());
  ASSIGN_OR_RETURN(model.tokenizer, LoadTokenizer(sources.model_dir));
  ASSIGN_OR_RETURN(const Json::Object special_tokens, ReadSpecialTokens(sources.model_dir));
  ASSIGN_OR_RETURN(model.chat_dialect, ReadBaseTemplate(sources, special_tokens));
  return model;
}

std::vector<std::string> BaseNames(const TextSources& sources) {
  if (!sources.names.empty()) return sources.names;
  return {DefaultModelName(sources.model_dir)};
}

std::optional<ChatDialectOr> ReadAdapterTemplate(const Folder& dir,
                                                 const Json::Object& special_tokens) {
  return Use(ChatTemplate::Load(dir, special_tokens));
}

void DescribeRunner(const ModelSpec& spec, int64_t max_model_len, gateway::ServedModel* model) {
  model->spec = spec;
  model->max_model_len = max_model_len;
  if (!spec.has_lm_head)
    LogInfo("The model has no lm_head: it makes embeddings and classes, and no text");
  // As vLLM does it: what the tokenizer calls the end ends a completion, too.
  std::vector<int32_t>& ends = model->spec.eos_token_ids;
  const auto end = model->tokenizer->eos_token_id();
  const bool is_new = end && *end < spec.vocab_size && std::ranges::find(ends, *end) == ends.end();
  if (is_new) ends.push_back(*end);
}

}  // namespace aril

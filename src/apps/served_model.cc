#include "apps/served_model.h"

#include <memory>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "spec/generation_config.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer_folder.h"

namespace aril {
namespace {

using gateway::ChatDialectOr;

ChatDialectOr NoTemplate() {
  return NotFound(
      "This model has no chat template: start the server with --chat-template, or use "
      "/v1/completions.");
}

StatusOr<ChatDialectOr> ReadBaseTemplate(const TextSources& sources,
                                         const Json::Object& special_tokens) {
  if (!sources.chat_template_file.empty()) {
    auto own = ChatTemplate::FromFile(sources.chat_template_file, special_tokens);
    if (!own.ok()) return Annotate(own.status(), "--chat-template");
    return ChatDialectOr(std::make_shared<const gateway::ChatDialect>(*std::move(own)));
  }
  auto loaded = ChatTemplate::Load(sources.model_dir, special_tokens);
  if (!loaded.ok()) return UnusableTemplate(loaded.status());
  if (!loaded->has_value()) return NoTemplate();
  return ChatDialectOr(std::make_shared<const gateway::ChatDialect>(**std::move(loaded)));
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

StatusOr<ReadModel> ReadServedModel(const TextSources& sources) {
  ReadModel read;
  ASSIGN_OR_RETURN(const ModelSpec spec, LoadModelSpec(sources.model_dir));
  gateway::ServedModel& model = read.served;
  ASSIGN_OR_RETURN(model.generation_defaults, ReadGenerationDefaults(sources));
  model.embedding = LoadEmbeddingSpec(sources.model_dir);
  if (!model.embedding.ok()) model.embedding = RefuseEmbeddings(model.embedding.status());
  ASSIGN_OR_RETURN(read.tokenizer, LoadTokenizer(sources.model_dir));
  ASSIGN_OR_RETURN(Json::Object special_tokens, ReadSpecialTokens(sources.model_dir));
  ASSIGN_OR_RETURN(ChatDialectOr dialect, ReadBaseTemplate(sources, special_tokens));
  model.text = std::make_shared<const gateway::ModelText>(gateway::ModelText{
      .tokenizer = read.tokenizer, .vocab_size = spec.vocab_size, .chat_dialect = dialect});
  read.adapter_text = std::make_shared<const AdapterTextReader>(
      read.tokenizer, std::move(special_tokens), std::move(dialect), spec.vocab_size);
  return read;
}

std::vector<std::string> BaseNames(const TextSources& sources) {
  if (!sources.names.empty()) return sources.names;
  return {DefaultModelName(sources.model_dir)};
}

void DescribeRunner(const ModelSpec& spec, int64_t max_model_len, gateway::ServedModel* model) {
  model->spec = spec;
  model->max_model_len = max_model_len;
  if (!spec.has_lm_head) {
    LogInfo("The model has no lm_head: it makes embeddings and classes, and no text");
  }
}

}  // namespace aril

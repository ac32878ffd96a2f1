// What the gateway knows of a base model and its adapters: names, tokenizer, chat templates.

#ifndef ARIL_APPS_SERVED_MODEL_H_
#define ARIL_APPS_SERVED_MODEL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/adapter_list.h"
#include "base/json.h"
#include "base/status.h"
#include "gateway/served_model.h"
#include "spec/model_spec.h"

namespace aril {

struct TextSources {
  std::string model_dir;
  std::vector<std::string> names;  // of the base model; empty: its folder's name
  std::string chat_template_file;  // instead of the base model's; empty: none
  // "auto": requests have the defaults that the model's generation_config.json states; "vllm": not.
  std::string generation_config = "auto";
};

// The base model's tokenizer, chat template and defaults of requests, which are logged. A chat
// template that Aril cannot run only takes chat from its model, with a warning, unless the operator
// named it.
StatusOr<gateway::ServedModel> ReadServedModel(const TextSources& sources);

// The names of the base model: those that were asked for, or its folder's.
std::vector<std::string> BaseNames(const TextSources& sources);

// The chat template that an adapter's folder brings, or what is wrong with it; nullopt without one.
std::optional<gateway::ChatDialectOr> ReadAdapterTemplate(const Folder& dir,
                                                          const Json::Object& special_tokens);

// Adds what the loaded model says.
void DescribeRunner(const ModelSpec& spec, int64_t max_model_len, gateway::ServedModel* model);

}  // namespace aril

#endif  // ARIL_APPS_SERVED_MODEL_H_

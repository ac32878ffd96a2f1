// What the gateway knows of a base model and its adapters: names, tokenizer, chat templates.

#ifndef ARIL_APPS_SERVED_MODEL_H_
#define ARIL_APPS_SERVED_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "apps/adapter_list.h"
#include "apps/adapter_text.h"
#include "base/status.h"
#include "gateway/served_model.h"
#include "spec/model_spec.h"
#include "tokenizer/pipeline.h"

namespace aril {

struct TextSources {
  std::string model_dir;
  std::vector<std::string> names;  // of the base model; empty: its folder's name
  std::string chat_template_file;  // instead of the base model's; empty: none
  // "auto": requests have the defaults that the model's generation_config.json states; "vllm": not.
  std::string generation_config = "auto";
};

// A base model as it is served, but for what its runner says, with what reads its adapters' text.
struct ReadModel {
  gateway::ServedModel served;
  std::shared_ptr<const PipelineTokenizer> tokenizer;
  std::shared_ptr<const AdapterTextReader> adapter_text;
};

// The base model's tokenizer, chat template and defaults of requests, which are logged. A chat
// template that Aril cannot run only takes chat from its model, with a warning, unless the operator
// named it.
StatusOr<ReadModel> ReadServedModel(const TextSources& sources);

// The names of the base model: those that were asked for, or its folder's.
std::vector<std::string> BaseNames(const TextSources& sources);

// Adds what the loaded model says.
void DescribeRunner(const ModelSpec& spec, int64_t max_model_len, gateway::ServedModel* model);

}  // namespace aril

#endif  // ARIL_APPS_SERVED_MODEL_H_

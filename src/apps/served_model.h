// What the gateway knows of a base model and its adapters: names, tokenizer, chat templates.

#ifndef ARIL_APPS_SERVED_MODEL_H_
#define ARIL_APPS_SERVED_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "apps/adapter_list.h"
#include "base/status.h"
#include "gateway/served_model.h"
#include "spec/model_spec.h"

namespace aril {

struct TextSources {
  std::string model_dir;
  std::vector<std::string> names;  // of the base model; empty: its folder's name
  std::string chat_template_file;  // instead of the base model's; empty: none
};

// The base model's tokenizer and chat template. A chat template that Aril cannot run only takes
// chat from its model, with a warning, unless the operator named it.
StatusOr<gateway::ServedModel> ReadServedModel(const TextSources& sources);

// InvalidArgument if the names of base model and adapters cannot stand beside each other.
StatusOr<Catalog> NameModels(const TextSources& sources, const std::vector<NamedAdapter>& adapters);

// Adds the adapters' names and the chat templates that they bring.
Status AddAdapters(const TextSources& sources, const std::vector<NamedAdapter>& adapters,
                   gateway::ServedModel* model);

// Adds what the loaded model says.
void DescribeRunner(const ModelSpec& spec, int64_t max_model_len, gateway::ServedModel* model);

}  // namespace aril

#endif  // ARIL_APPS_SERVED_MODEL_H_

// What requests are checked against and answered with.

#ifndef ARIL_GATEWAY_SERVED_MODEL_H_
#define ARIL_GATEWAY_SERVED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/ids.h"
#include "base/status.h"
#include "catalog/catalog.h"
#include "grammar/compile.h"
#include "spec/generation_config.h"
#include "spec/model_spec.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"
#include "wire/output_format.h"

namespace aril::gateway {

using ChatTemplateOr = StatusOr<std::shared_ptr<const ChatTemplate>>;

// The chat templates that adapters bring. Thread-safe.
class AdapterChatTemplates {
 public:
  void Set(AdapterId adapter, ChatTemplateOr chat_template) {
    const std::lock_guard lock(mutex_);
    templates_.insert_or_assign(adapter, std::move(chat_template));
  }
  void Erase(AdapterId adapter) {
    const std::lock_guard lock(mutex_);
    templates_.erase(adapter);
  }
  std::optional<ChatTemplateOr> Find(AdapterId adapter) const {
    const std::lock_guard lock(mutex_);
    const auto found = templates_.find(adapter);
    return found == templates_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<AdapterId, ChatTemplateOr> templates_;
};

// Immutable while it is served, but for the adapters; thread-safe.
struct ServedModel {
  ModelSpec spec;
  GenerationDefaults generation_defaults;  // of requests
  std::unique_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<Catalog> catalog;
  // Of the base model; an error is what a chat request is answered with.
  ChatTemplateOr chat_template = NotFound("This model has no chat template.");
  std::shared_ptr<AdapterChatTemplates> adapter_chat_templates =
      std::make_shared<AdapterChatTemplates>();
  // Whether an output can be kept to a format; else what is wrong with it. Thread-safe.
  std::function<Status(const wire::OutputFormat&)> check_format =
      [](const wire::OutputFormat& format) { return grammar::Compile(format).status(); };
  int64_t max_model_len = 0;  // tokens of prompt and output together
  int64_t created = 0;        // Unix seconds

  // For requests to an adapter or to the base model.
  ChatTemplateOr ChatTemplateOf(AdapterId adapter) const {
    return adapter_chat_templates->Find(adapter).value_or(chat_template);
  }
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_SERVED_MODEL_H_

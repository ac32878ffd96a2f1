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
#include "gateway/chat_dialect.h"
#include "grammar/compile.h"
#include "spec/embedding_spec.h"
#include "spec/generation_config.h"
#include "spec/model_spec.h"
#include "tokenizer/tokenizer.h"
#include "wire/output_format.h"

namespace aril::gateway {

using ChatDialectOr = StatusOr<std::shared_ptr<const ChatDialect>>;

// The chat templates that adapters bring, with what is learned from them. Thread-safe.
class AdapterChatDialects {
 public:
  void Set(AdapterId adapter, ChatDialectOr dialect) {
    const std::lock_guard lock(mutex_);
    dialects_.insert_or_assign(adapter, std::move(dialect));
  }
  void Erase(AdapterId adapter) {
    const std::lock_guard lock(mutex_);
    dialects_.erase(adapter);
  }
  std::optional<ChatDialectOr> Find(AdapterId adapter) const {
    const std::lock_guard lock(mutex_);
    const auto found = dialects_.find(adapter);
    return found == dialects_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<AdapterId, ChatDialectOr> dialects_;
};

// Immutable while it is served, but for the adapters; thread-safe.
struct ServedModel {
  ModelSpec spec;
  GenerationDefaults generation_defaults;  // of requests
  // An error is what a request for embeddings is answered with.
  StatusOr<EmbeddingSpec> embedding = EmbeddingSpec();
  std::unique_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<Catalog> catalog;
  // Of the base model; an error is what a chat request is answered with.
  ChatDialectOr chat_dialect = NotFound("This model has no chat template.");
  std::shared_ptr<AdapterChatDialects> adapter_chat_dialects =
      std::make_shared<AdapterChatDialects>();
  // Whether an output can be kept to a format; else what is wrong with it. Thread-safe.
  std::function<Status(const wire::OutputFormat&)> check_format =
      [](const wire::OutputFormat& format) { return grammar::Compile(format).status(); };
  int64_t max_model_len = 0;  // tokens of prompt and output together
  int64_t created = 0;        // Unix seconds

  // For requests to an adapter or to the base model.
  ChatDialectOr ChatDialectOf(AdapterId adapter) const {
    return adapter_chat_dialects->Find(adapter).value_or(chat_dialect);
  }
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_SERVED_MODEL_H_

// How a base model, or one of its adapters, reads and writes text.

#ifndef ARIL_GATEWAY_MODEL_TEXT_H_
#define ARIL_GATEWAY_MODEL_TEXT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/ids.h"
#include "base/status.h"
#include "gateway/chat_dialect.h"
#include "tokenizer/tokenizer.h"

namespace aril::gateway {

using ChatDialectOr = StatusOr<std::shared_ptr<const ChatDialect>>;

// Immutable; thread-safe.
struct ModelText {
  std::shared_ptr<const Tokenizer> tokenizer;
  int64_t vocab_size = 0;  // of the model, which may have fewer tokens than that, or some to spare
  // An error is what a chat request is answered with.
  ChatDialectOr chat_dialect = NotFound("This model has no chat template.");
  // Why no output can be kept to a format, which the base model's tokens are known for alone.
  Status keeps_formats = OkStatus();
};
using ModelTextPtr = std::shared_ptr<const ModelText>;

// Of the adapters that bring a chat template, or tokens, of their own. Thread-safe.
class AdapterTexts {
 public:
  void Set(AdapterId adapter, ModelTextPtr text) {
    const std::lock_guard lock(mutex_);
    texts_.insert_or_assign(adapter, std::move(text));
  }
  void Erase(AdapterId adapter) {
    const std::lock_guard lock(mutex_);
    texts_.erase(adapter);
  }
  // Null for others.
  ModelTextPtr Find(AdapterId adapter) const {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(adapter);
    return found == texts_.end() ? nullptr : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<AdapterId, ModelTextPtr> texts_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_MODEL_TEXT_H_

// What requests are checked against and answered with.

#ifndef ARIL_GATEWAY_SERVED_MODEL_H_
#define ARIL_GATEWAY_SERVED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/ids.h"
#include "base/status.h"
#include "catalog/catalog.h"
#include "spec/model_spec.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace aril::gateway {

using ChatTemplateOr = StatusOr<std::shared_ptr<const ChatTemplate>>;

// Immutable while it is served; thread-safe.
struct ServedModel {
  ModelSpec spec;
  std::unique_ptr<const Tokenizer> tokenizer;
  Catalog catalog;
  // Of the base model; an error is what a chat request is answered with.
  ChatTemplateOr chat_template = NotFound("This model has no chat template.");
  // Of adapters that ship one.
  std::unordered_map<AdapterId, ChatTemplateOr> adapter_chat_templates;
  int64_t max_model_len = 0;  // tokens of prompt and output together
  int64_t created = 0;        // Unix seconds

  // For requests to an adapter or to the base model.
  const ChatTemplateOr& ChatTemplateOf(AdapterId adapter) const {
    const auto own = adapter_chat_templates.find(adapter);
    return own != adapter_chat_templates.end() ? own->second : chat_template;
  }
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_SERVED_MODEL_H_

// What adapters' folders say of text: chat templates, and tokens of their own.

#ifndef ARIL_APPS_ADAPTER_TEXT_H_
#define ARIL_APPS_ADAPTER_TEXT_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"
#include "gateway/model_text.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer_changes.h"

namespace aril {

// Warns of a chat template that Aril cannot run; what chats with its model are answered with.
gateway::ChatDialectOr UnusableTemplate(const Status& why);

// Adapters of the same tokens share a tokenizer, and all of them share with the base model's.
// Thread-safe.
class AdapterTextReader {
 public:
  // Of the base model. `special_tokens`: for chat templates.
  AdapterTextReader(std::shared_ptr<const PipelineTokenizer> tokenizer, Json::Object special_tokens,
                    gateway::ChatDialectOr chat_dialect);

  // Null for a folder that brings nothing. An error if its tokens cannot be had beside the base
  // model's. A chat template that Aril cannot run only takes chats from it, with a warning.
  StatusOr<gateway::ModelTextPtr> Read(const Folder& dir) const;
  // The same for who loads it, and should know: such a template is an error.
  StatusOr<gateway::ModelTextPtr> ReadStrictly(const Folder& dir) const;

  // The same for others that have the base model, but not the folder. Nulls for what it does not
  // bring.
  struct Shared {
    Json chat_template = {};
    Json tokens = {};
  };
  StatusOr<Shared> Share(const Folder& dir) const;
  StatusOr<gateway::ModelTextPtr> FromShared(const Shared& shared) const;

 private:
  StatusOr<TokenizerChanges> ChangesOf(const Folder& dir) const;
  std::shared_ptr<const Tokenizer> TokenizerOf(const TokenizerChanges& changes) const;
  gateway::ModelTextPtr Make(std::optional<gateway::ChatDialectOr> own,
                             const TokenizerChanges& changes) const;

  const std::shared_ptr<const PipelineTokenizer> tokenizer_;
  const Json::Object special_tokens_;
  const gateway::ChatDialectOr chat_dialect_;
  mutable std::mutex mutex_;
  // Of a tokenizer.json that has been read, by the digest of it and of what lies beside it: those
  // of adapters are large, and most are the same.
  mutable std::unordered_map<std::string, TokenizerChanges> changes_;
  mutable std::unordered_map<std::string, std::weak_ptr<const Tokenizer>> tokenizers_;
};

}  // namespace aril

#endif  // ARIL_APPS_ADAPTER_TEXT_H_

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
#include "tokenizer/tokenizer_folder.h"

namespace aril {

// Warns of a chat template that Aril cannot run; what chats with its model are answered with.
gateway::ChatDialectOr UnusableTemplate(const Status& why);

// Adapters of the same tokens share a tokenizer, and all of them share with the base model's.
// Thread-safe.
class AdapterTextReader {
 public:
  // Of the base model. `special_tokens`: for chat templates.
  AdapterTextReader(std::shared_ptr<const PipelineTokenizer> tokenizer, Json::Object special_tokens,
                    gateway::ChatDialectOr chat_dialect, int64_t vocab_size);

  // Null for a folder that brings nothing; `vocab_size`: LoraSpec's. An error if its tokens cannot
  // be had beside the base model's. A chat template that Aril cannot run only takes chats from it,
  // with a warning.
  StatusOr<gateway::ModelTextPtr> Read(const Folder& dir, int64_t vocab_size) const;
  // The same for who loads it, and should know: such a template is an error.
  StatusOr<gateway::ModelTextPtr> ReadStrictly(const Folder& dir, int64_t vocab_size) const;

  // The same for others that have the base model, but not the folder. Nulls for what it does not
  // bring.
  struct Shared {
    Json chat_template = {};
    Json tokens = {};
    int64_t vocab_size = 0;  // 0: the base model's
  };
  StatusOr<Shared> Share(const Folder& dir, int64_t vocab_size) const;
  StatusOr<gateway::ModelTextPtr> FromShared(const Shared& shared) const;

 private:
  StatusOr<TokenizerChanges> ChangesOf(const Folder& dir, int64_t vocab_size) const;
  StatusOr<TokenizerChanges> KnownChangesIn(const AdapterTokenizerFiles& files) const;
  // What ends a text, or goes around it, must have a row in the model.
  Status CheckRows(const TokenizerChanges& changes, int64_t vocab_size,
                   const std::string& where) const;
  // Formats are kept to with the base model's tokens: not if one of them that is text is called
  // otherwise, or not shown, or ends texts.
  Status CheckFormats(const TokenizerChanges& changes) const;
  std::shared_ptr<const Tokenizer> TokenizerOf(const TokenizerChanges& changes) const;
  gateway::ModelTextPtr Make(std::optional<gateway::ChatDialectOr> own,
                             const TokenizerChanges& changes, int64_t vocab_size) const;

  const std::shared_ptr<const PipelineTokenizer> tokenizer_;
  const Json::Object special_tokens_;
  const gateway::ChatDialectOr chat_dialect_;
  const int64_t vocab_size_;
  mutable std::mutex mutex_;
  // Of a tokenizer.json that has been read, by the digest of it and of what lies beside it: those
  // of adapters are large, and most are the same.
  mutable std::unordered_map<std::string, TokenizerChanges> changes_;
  mutable size_t num_known_tokens_ = 0;  // in these
  // By the digest of what they change.
  mutable std::unordered_map<std::string, std::weak_ptr<const Tokenizer>> tokenizers_;
  mutable size_t sweep_at_ = 64;  // tokenizers: then those that nobody has go
};

}  // namespace aril

#endif  // ARIL_APPS_ADAPTER_TEXT_H_

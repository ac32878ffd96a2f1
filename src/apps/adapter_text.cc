#include "apps/adapter_text.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "tokenizer/tokenizer_folder.h"

namespace aril {
namespace {

using gateway::ChatDialect;
using gateway::ChatDialectOr;
using gateway::ModelText;
using gateway::ModelTextPtr;

constexpr size_t kMaxKnownFiles = 256;
// More than this are looked through for those that nobody uses any more.
constexpr size_t kManyTokenizers = 64;

std::optional<ChatDialectOr> DialectOf(std::optional<ChatTemplate> own) {
  if (!own) return std::nullopt;
  return std::make_shared<const ChatDialect>(*std::move(own));
}

Json ToJson(const ChatTemplateText& text) {
  Json::Object object = {{"main", text.main}, {"special_tokens", text.special_tokens}};
  if (text.tool_use) object.emplace_back("tool_use", *text.tool_use);
  return object;
}

StatusOr<ChatTemplateText> ReadTemplateText(const Json& json, const std::string& where) {
  ChatTemplateText text = {.where = where, .main = {}, .tool_use = {}, .special_tokens = {}};
  const Json* main = json.Find("main");
  const Json* tokens = json.Find("special_tokens");
  const Json* tool_use = json.Find("tool_use");
  if (main == nullptr || main->AsString() == nullptr || tokens == nullptr ||
      tokens->AsObject() == nullptr || (tool_use != nullptr && tool_use->AsString() == nullptr)) {
    return InvalidArgument(where + " is not what gateways write");
  }
  text.main = *main->AsString();
  text.special_tokens = *tokens->AsObject();
  if (tool_use != nullptr) text.tool_use = *tool_use->AsString();
  return text;
}

}  // namespace

ChatDialectOr UnusableTemplate(const Status& why) {
  LogWarning(StrCat("Chats with this model will be refused: ", Message(why)));
  // The reason names files of the server, which are no business of its clients.
  return Unimplemented(
      "The chat template of this model cannot be used; the server's log says why. /v1/completions "
      "works without it.");
}

AdapterTextReader::AdapterTextReader(std::shared_ptr<const PipelineTokenizer> tokenizer,
                                     Json::Object special_tokens, ChatDialectOr chat_dialect)
    : tokenizer_(std::move(tokenizer)),
      special_tokens_(std::move(special_tokens)),
      chat_dialect_(std::move(chat_dialect)) {}

StatusOr<ModelTextPtr> AdapterTextReader::Read(const Folder& dir) const {
  ASSIGN_OR_RETURN(const TokenizerChanges changes, ChangesOf(dir));
  auto own = ChatTemplate::Load(dir, special_tokens_);
  return Make(own.ok() ? DialectOf(*std::move(own)) : UnusableTemplate(own.status()), changes);
}

StatusOr<ModelTextPtr> AdapterTextReader::ReadStrictly(const Folder& dir) const {
  ASSIGN_OR_RETURN(const TokenizerChanges changes, ChangesOf(dir));
  ASSIGN_OR_RETURN(std::optional<ChatTemplate> own, ChatTemplate::Load(dir, special_tokens_));
  return Make(DialectOf(std::move(own)), changes);
}

StatusOr<AdapterTextReader::Shared> AdapterTextReader::Share(const Folder& dir) const {
  ASSIGN_OR_RETURN(const TokenizerChanges changes, ChangesOf(dir));
  ASSIGN_OR_RETURN(const std::optional<ChatTemplateText> text,
                   ChatTemplate::Read(dir, special_tokens_));
  Shared shared;
  if (text) {
    RETURN_IF_ERROR(ChatTemplate::FromText(*text).status());
    shared.chat_template = ToJson(*text);
  }
  if (!changes.empty()) shared.tokens = ToJson(changes);
  return shared;
}

StatusOr<ModelTextPtr> AdapterTextReader::FromShared(const Shared& shared) const {
  std::optional<ChatTemplate> own;
  if (!shared.chat_template.is_null()) {
    ASSIGN_OR_RETURN(const ChatTemplateText text,
                     ReadTemplateText(shared.chat_template, "its chat template"));
    ASSIGN_OR_RETURN(own, ChatTemplate::FromText(text));
  }
  TokenizerChanges changes;
  if (!shared.tokens.is_null()) {
    ASSIGN_OR_RETURN(changes, ReadTokenizerChanges(shared.tokens, "its tokens"));
  }
  return Make(DialectOf(std::move(own)), changes);
}

StatusOr<TokenizerChanges> AdapterTextReader::ChangesOf(const Folder& dir) const {
  ASSIGN_OR_RETURN(const AdapterTokenizerFiles files, ReadAdapterTokenizer(dir));
  if (!files.json) return ChangesIn(files, *tokenizer_);
  const std::string digest = StrCat(Sha256(files.config->Dump()), Sha256(*files.json));
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = changes_.find(digest); known != changes_.end()) return known->second;
  }
  ASSIGN_OR_RETURN(TokenizerChanges changes, ChangesIn(files, *tokenizer_));
  const std::lock_guard lock(mutex_);
  if (changes_.size() >= kMaxKnownFiles) changes_.clear();
  changes_.emplace(digest, changes);
  return changes;
}

std::shared_ptr<const Tokenizer> AdapterTextReader::TokenizerOf(
    const TokenizerChanges& changes) const {
  if (changes.empty()) return tokenizer_;
  const std::lock_guard lock(mutex_);
  if (tokenizers_.size() >= kManyTokenizers) {
    std::erase_if(tokenizers_, [](const auto& entry) { return entry.second.expired(); });
  }
  std::weak_ptr<const Tokenizer>& known = tokenizers_[ToJson(changes).Dump()];
  std::shared_ptr<const Tokenizer> tokenizer = known.lock();
  if (tokenizer == nullptr) known = tokenizer = WithChanges(*tokenizer_, changes);
  return tokenizer;
}

ModelTextPtr AdapterTextReader::Make(std::optional<ChatDialectOr> own,
                                     const TokenizerChanges& changes) const {
  if (!own && changes.empty()) return nullptr;
  if (!own) {
    // What is learned from a template is learned with a tokenizer.
    own = chat_dialect_;
    if (own->ok()) own = std::make_shared<const ChatDialect>((**own)->chat_template());
  }
  return std::make_shared<const ModelText>(
      ModelText{.tokenizer = TokenizerOf(changes), .chat_dialect = *std::move(own)});
}

}  // namespace aril

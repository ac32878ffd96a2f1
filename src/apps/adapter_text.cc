#include "apps/adapter_text.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace aril {
namespace {

using gateway::ChatDialect;
using gateway::ChatDialectOr;
using gateway::ModelText;
using gateway::ModelTextPtr;

// Of tokenizer.json, and of the tokens in them, whose contents take a few MiB then.
constexpr size_t kMaxKnownFiles = 256;
constexpr size_t kMaxKnownTokens = 1 << 16;

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
                                     Json::Object special_tokens, ChatDialectOr chat_dialect,
                                     int64_t vocab_size)
    : tokenizer_(std::move(tokenizer)),
      special_tokens_(std::move(special_tokens)),
      chat_dialect_(std::move(chat_dialect)),
      vocab_size_(vocab_size) {}

StatusOr<ModelTextPtr> AdapterTextReader::Read(const Folder& dir, int64_t vocab_size) const {
  ASSIGN_OR_RETURN(const TokenizerChanges changes, ChangesOf(dir, vocab_size));
  auto own = ChatTemplate::Load(dir, special_tokens_);
  return Make(own.ok() ? DialectOf(*std::move(own)) : UnusableTemplate(own.status()), changes,
              vocab_size);
}

StatusOr<ModelTextPtr> AdapterTextReader::ReadStrictly(const Folder& dir,
                                                       int64_t vocab_size) const {
  ASSIGN_OR_RETURN(const TokenizerChanges changes, ChangesOf(dir, vocab_size));
  ASSIGN_OR_RETURN(std::optional<ChatTemplate> own, ChatTemplate::Load(dir, special_tokens_));
  return Make(DialectOf(std::move(own)), changes, vocab_size);
}

StatusOr<AdapterTextReader::Shared> AdapterTextReader::Share(const Folder& dir,
                                                             int64_t vocab_size) const {
  ASSIGN_OR_RETURN(const TokenizerChanges changes, ChangesOf(dir, vocab_size));
  ASSIGN_OR_RETURN(const std::optional<ChatTemplateText> text,
                   ChatTemplate::Read(dir, special_tokens_));
  Shared shared{.vocab_size = vocab_size};
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
  const int64_t vocab_size = shared.vocab_size > 0 ? shared.vocab_size : vocab_size_;
  TokenizerChanges changes;
  if (!shared.tokens.is_null()) {
    ASSIGN_OR_RETURN(changes, ReadTokenizerChanges(shared.tokens, "its tokens"));
    RETURN_IF_ERROR(CheckRows(changes, vocab_size, "its tokens"));
  }
  return Make(DialectOf(std::move(own)), changes, vocab_size);
}

StatusOr<TokenizerChanges> AdapterTextReader::ChangesOf(const Folder& dir,
                                                        int64_t vocab_size) const {
  ASSIGN_OR_RETURN(const AdapterTokenizerFiles files, ReadAdapterTokenizer(dir));
  ASSIGN_OR_RETURN(TokenizerChanges changes,
                   files.json ? KnownChangesIn(files) : ChangesIn(files, *tokenizer_));
  RETURN_IF_ERROR(CheckRows(changes, vocab_size, files.config_path));
  return changes;
}

StatusOr<TokenizerChanges> AdapterTextReader::KnownChangesIn(
    const AdapterTokenizerFiles& files) const {
  const std::string digest = StrCat(Sha256(files.config->Dump()), Sha256(*files.json));
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = changes_.find(digest); known != changes_.end()) return known->second;
  }
  ASSIGN_OR_RETURN(TokenizerChanges changes, ChangesIn(files, *tokenizer_));
  const std::lock_guard lock(mutex_);
  if (changes_.size() >= kMaxKnownFiles || num_known_tokens_ >= kMaxKnownTokens) {
    changes_.clear();
    num_known_tokens_ = 0;
  }
  if (changes_.emplace(digest, changes).second) num_known_tokens_ += changes.tokens.size();
  return changes;
}

Status AdapterTextReader::CheckRows(const TokenizerChanges& changes, int64_t vocab_size,
                                    const std::string& where) const {
  std::vector<int32_t> needed;
  for (const auto& [own, of_base] : {std::pair(changes.bos_token_id, tokenizer_->bos_token_id()),
                                     std::pair(changes.eos_token_id, tokenizer_->eos_token_id())}) {
    if (own) needed.push_back(*own);
    // The base model's may have gone with the end of its vocabulary.
    if (!own && of_base && *of_base < vocab_size_) needed.push_back(*of_base);
  }
  if (changes.around) {
    needed.insert(needed.end(), changes.around->prefix.begin(), changes.around->prefix.end());
    needed.insert(needed.end(), changes.around->suffix.begin(), changes.around->suffix.end());
  }
  for (const int32_t id : needed) {
    if (id < vocab_size) continue;
    return InvalidArgument(StrCat(where, ": token ", id,
                                  " begins or ends texts, and the model has a vocabulary of ",
                                  vocab_size,
                                  ": where that was resized for an adapter, the adapter is to be "
                                  "saved with its embedding (save_embedding_layers)"));
  }
  return OkStatus();
}

Status AdapterTextReader::CheckFormats(const TokenizerChanges& changes) const {
  const auto text_of = [&](int32_t id) {
    return tokenizer_->IsSpecial(id) ? ""
                                     : tokenizer_->TokenBytes(id, /*is_first=*/false,
                                                              /*skip_special_tokens=*/false);
  };
  for (const AddedToken& token : changes.tokens) {
    const std::string text = text_of(token.id);
    if (text.empty() || (text == token.content && !token.special)) continue;
    return Unimplemented(StrCat("to this adapter ", JsonQuote(token.content),
                                " is what is text to the base model, ", JsonQuote(text)));
  }
  if (!changes.eos_token_id || text_of(*changes.eos_token_id).empty()) return OkStatus();
  return Unimplemented(StrCat("this adapter's texts end with ",
                              JsonQuote(text_of(*changes.eos_token_id)),
                              ", which is a word of the base model's"));
}

std::shared_ptr<const Tokenizer> AdapterTextReader::TokenizerOf(
    const TokenizerChanges& changes) const {
  if (changes.empty()) return tokenizer_;
  const std::string digest = Sha256(ToJson(changes).Dump());
  const auto find = [&]() -> std::shared_ptr<const Tokenizer> {
    const auto known = tokenizers_.find(digest);
    return known == tokenizers_.end() ? nullptr : known->second.lock();
  };
  {
    const std::lock_guard lock(mutex_);
    if (auto known = find(); known != nullptr) return known;
  }
  auto made = WithChanges(*tokenizer_, changes);
  const std::lock_guard lock(mutex_);
  // Somebody else may have been quicker.
  if (auto known = find(); known != nullptr) return known;
  if (tokenizers_.size() >= sweep_at_) {
    std::erase_if(tokenizers_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max(sweep_at_, 2 * tokenizers_.size());
  }
  tokenizers_[digest] = made;
  return made;
}

ModelTextPtr AdapterTextReader::Make(std::optional<ChatDialectOr> own,
                                     const TokenizerChanges& changes, int64_t vocab_size) const {
  if (!own && changes.empty() && vocab_size == vocab_size_) return nullptr;
  if (!own) {
    // What is learned from a template is learned with a tokenizer.
    own = chat_dialect_;
    if (own->ok() && !changes.empty()) {
      own = std::make_shared<const ChatDialect>((**own)->chat_template());
    }
  }
  return std::make_shared<const ModelText>(ModelText{.tokenizer = TokenizerOf(changes),
                                                     .vocab_size = vocab_size,
                                                     .chat_dialect = *std::move(own),
                                                     .keeps_formats = CheckFormats(changes)});
}

}  // namespace aril

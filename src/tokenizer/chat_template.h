// From the messages of a conversation to the text that a model was trained on, by the template in
// its folder: as transformers' apply_chat_template.

#ifndef ARIL_TOKENIZER_CHAT_TEMPLATE_H_
#define ARIL_TOKENIZER_CHAT_TEMPLATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/folder.h"
#include "base/json.h"
#include "base/status.h"
#include "jinja/template.h"

namespace aril {

struct ChatPrompt {
  Json messages;   // an array of objects, with text as content
  Json tools;      // an array, or null
  Json documents;  // an array of objects, or null
  bool add_generation_prompt = true;
  // Leave the last message open, so that the model goes on with it.
  bool continue_final_message = false;
  // Further variables: an object, or null. They win over special tokens, not over the conversation.
  Json variables;
  int64_t unix_seconds = 0;  // for templates that state the date, in UTC
};

// A folder's template before it is parsed, with what it takes to have it elsewhere.
struct ChatTemplateText {
  std::string where;  // it was read, for errors
  std::string main;
  std::optional<std::string> tool_use;  // instead, where tools are given
  Json::Object special_tokens;
};

// Immutable; thread-safe.
class ChatTemplate {
 public:
  // The template of a model's or an adapter's folder: chat_template.jinja with
  // additional_chat_templates/tool_use.jinja, else "chat_template" in tokenizer_config.json (a
  // string, or a list of named ones), else the same in chat_template.json. nullopt if there is
  // none. `special_tokens`: for what the folder does not say of them (tokenizer/special_tokens.h).
  static StatusOr<std::optional<ChatTemplate>> Load(const Folder& dir,
                                                    const Json::Object& special_tokens);
  // The two halves of Load.
  static StatusOr<std::optional<ChatTemplateText>> Read(const Folder& dir,
                                                        const Json::Object& special_tokens);
  static StatusOr<ChatTemplate> FromText(const ChatTemplateText& text);
  static StatusOr<ChatTemplate> FromFile(const std::string& path,
                                         const Json::Object& special_tokens);
  static StatusOr<ChatTemplate> Parse(std::string_view source, const Json::Object& special_tokens);

  // Whether its texts have the word "developer", in quotes: else they mean no messages of that
  // role.
  bool knows_developers() const { return knows_developers_; }

  // Errors are those of jinja::Template::Render: InvalidArgument has the template's own words.
  StatusOr<std::string> Render(const ChatPrompt& prompt) const;

 private:
  ChatTemplate(jinja::Template main, Json::Object special_tokens)
      : main_(std::move(main)), special_tokens_(std::move(special_tokens)) {}

  jinja::Template main_;
  std::optional<jinja::Template> tool_use_;  // instead, where tools are given
  Json::Object special_tokens_;
  bool knows_developers_ = false;
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_CHAT_TEMPLATE_H_

// Source: transformers, tokenization_utils_base.py (which template) and
// utils/chat_template_utils.py (what it sees).

#include "tokenizer/chat_template.h"

#include <algorithm>

#include "base/file.h"
#include "base/strings.h"
#include "jinja/text.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/special_tokens.h"

namespace aril {
namespace {

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr size_t kMaxTemplateBytes = 1 << 20;
// Marks where the last message ends. No message holds it by accident.
constexpr std::string_view kEndMark = "CONTINUE_FINAL_MESSAGE_TAG ";

bool NamesDevelopers(std::string_view source) {
  return source.find("'developer'") != std::string_view::npos ||
         source.find("\"developer\"") != std::string_view::npos;
}

struct Sources {
  std::optional<std::string> main;
  std::optional<std::string> tool_use;
  std::string where;  // for errors
};

StatusOr<Sources> ReadJinjaFiles(const Folder& dir) {
  Sources sources = {.where = dir.PathOf(kTemplateFile)};
  ASSIGN_OR_RETURN(sources.main, ReadFile(dir, kTemplateFile, kMaxTemplateBytes));
  constexpr const char* kToolUse = "additional_chat_templates/tool_use.jinja";
  if (dir.Has(kToolUse)) {
    ASSIGN_OR_RETURN(sources.tool_use, ReadFile(dir, kToolUse, kMaxTemplateBytes));
  }
  return sources;
}

// [{"name": "default", "template": "…"}, …]
Status ReadNamedTemplates(const Json::Array& list, const JsonFields& fields, Sources* sources) {
  for (size_t i = 0; i < list.size(); ++i) {
    ASSIGN_OR_RETURN(const JsonFields item,
                     JsonFields::Of(list[i], ElementPath(fields.PathOf("chat_template"), i)));
    ASSIGN_OR_RETURN(const std::string name, item.String("name"));
    ASSIGN_OR_RETURN(std::string source, item.String("template"));
    if (name == "default") {
      sources->main = std::move(source);
    } else if (name == "tool_use") {
      sources->tool_use = std::move(source);
    }
  }
  if (sources->main.has_value()) return OkStatus();
  return InvalidArgument(fields.PathOf("chat_template") + " has no template named \"default\"");
}

// That of a JSON file's "chat_template"; none if there is none.
StatusOr<Sources> ReadJsonTemplate(const Folder& dir, const char* file) {
  const std::string path = dir.PathOf(file);
  Sources sources = {.where = path + ": chat_template"};
  ASSIGN_OR_RETURN(const auto json, ReadOptionalObject(dir, file));
  if (!json.has_value()) return sources;
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*json, path));
  const Json* member = fields.Find("chat_template");
  if (member == nullptr || member->is_null()) return sources;
  if (const Json::Array* list = member->AsArray()) {
    RETURN_IF_ERROR(ReadNamedTemplates(*list, fields, &sources));
  } else {
    ASSIGN_OR_RETURN(sources.main, fields.String("chat_template"));
  }
  return sources;
}

// Appends kEndMark to the text of the last message; returns the text, which may be empty.
StatusOr<std::string> MarkFinalMessage(Json* messages) {
  Json::Array* list = messages->AsArray();
  Json* content = list == nullptr || list->empty() ? nullptr : list->back().Find("content");
  if (content == nullptr || content->AsString() == nullptr) {
    return InvalidArgument("continue_final_message: the last message has no text to continue");
  }
  std::string text = *content->AsString();
  *content = text + std::string(kEndMark);
  return text;
}

// What was rendered before the mark. A template that trims messages takes the mark's space away;
// then the message's own spaces go as well, as in transformers. So does the error, where a template
// rewrites the message (some take reasoning out): the model would go on with another text.
StatusOr<std::string> CutAtMark(std::string text, std::string_view final_message) {
  const std::string_view word = kEndMark.substr(0, kEndMark.size() - 1);
  const size_t at = text.rfind(word);
  if (at == std::string::npos) {
    return InvalidArgument("continue_final_message: the chat template leaves the last message out");
  }
  const std::string_view trimmed = jinja::StripLeft(jinja::StripRight(final_message));
  if (jinja::FindText(text, trimmed) == std::string_view::npos) {
    return InvalidArgument(
        "continue_final_message: the chat template changes the last message, or leaves a part of "
        "it out");
  }
  const bool is_trimmed = text.compare(at, kEndMark.size(), kEndMark) != 0;
  text.resize(at);
  if (is_trimmed) text.resize(jinja::StripRight(text).size());
  return text;
}

}  // namespace

StatusOr<std::optional<ChatTemplateText>> ChatTemplate::Read(const Folder& dir,
                                                             const Json::Object& special_tokens) {
  ASSIGN_OR_RETURN(Sources sources, dir.Has(kTemplateFile)
                                        ? ReadJinjaFiles(dir)
                                        : ReadJsonTemplate(dir, "tokenizer_config.json"));
  // Beside a model that also sees, of transformers before 4.52 (processing_utils.py).
  if (!sources.main.has_value()) {
    ASSIGN_OR_RETURN(sources, ReadJsonTemplate(dir, "chat_template.json"));
  }
  if (!sources.main.has_value()) return std::optional<ChatTemplateText>();
  ASSIGN_OR_RETURN(Json::Object tokens, ReadSpecialTokens(dir, special_tokens));
  return std::optional(ChatTemplateText{.where = std::move(sources.where),
                                        .main = *std::move(sources.main),
                                        .tool_use = std::move(sources.tool_use),
                                        .special_tokens = std::move(tokens)});
}

StatusOr<ChatTemplate> ChatTemplate::FromText(const ChatTemplateText& text) {
  auto result = Parse(text.main, text.special_tokens);
  if (!result.ok()) return Annotate(result.status(), text.where);
  if (text.tool_use.has_value()) {
    auto tool_use = jinja::Template::Parse(*text.tool_use);
    if (!tool_use.ok()) return Annotate(tool_use.status(), text.where + " (tool_use)");
    result->tool_use_ = *std::move(tool_use);
    result->knows_developers_ &= NamesDevelopers(*text.tool_use);
  }
  return result;
}

StatusOr<std::optional<ChatTemplate>> ChatTemplate::Load(const Folder& dir,
                                                         const Json::Object& special_tokens) {
  ASSIGN_OR_RETURN(const auto text, Read(dir, special_tokens));
  if (!text.has_value()) return std::optional<ChatTemplate>();
  ASSIGN_OR_RETURN(ChatTemplate result, FromText(*text));
  return std::optional(std::move(result));
}

StatusOr<ChatTemplate> ChatTemplate::FromFile(const std::string& path,
                                              const Json::Object& special_tokens) {
  ASSIGN_OR_RETURN(const std::string source, ReadFile(path, kMaxTemplateBytes));
  auto result = Parse(source, special_tokens);
  if (!result.ok()) return Annotate(result.status(), path);
  return result;
}

StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source,
                                           const Json::Object& special_tokens) {
  ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::Parse(source));
  ChatTemplate result(std::move(parsed), special_tokens);
  result.knows_developers_ = NamesDevelopers(source);
  return result;
}

StatusOr<std::string> ChatTemplate::Render(const ChatPrompt& prompt) const {
  Json messages = prompt.messages;
  std::string final_message;
  if (prompt.continue_final_message) {
    ASSIGN_OR_RETURN(final_message, MarkFinalMessage(&messages));
  }
  Json::Object variables = special_tokens_;  // of two with one name the later counts
  if (const Json::Object* more = prompt.variables.AsObject()) {
    variables.insert(variables.end(), more->begin(), more->end());
  }
  variables.emplace_back("messages", std::move(messages));
  variables.emplace_back("tools", prompt.tools);
  variables.emplace_back("documents", prompt.documents);
  variables.emplace_back("add_generation_prompt", prompt.add_generation_prompt);
  const bool with_tools = tool_use_.has_value() && !prompt.tools.is_null();
  ASSIGN_OR_RETURN(std::string text,
                   (with_tools ? *tool_use_ : main_)
                       .Render(variables, {.now_unix_seconds = prompt.unix_seconds, .limits = {}}));
  return prompt.continue_final_message ? CutAtMark(std::move(text), final_message) : text;
}

}  // namespace aril

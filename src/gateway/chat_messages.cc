#include "gateway/chat_messages.h"

#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"
#include "gateway/json_fields.h"

namespace aril::gateway {
namespace {

ApiError Wrong(const std::string& where, const std::string& what) {
  return InvalidField(where, StrCat('`', where, "` ", what));
}

// The text of a part; nullptr if it has none.
const std::string* PartText(const Json& part) {
  // As chats have it, as responses do, and what a model has said instead of an answer.
  for (const auto& [type, member] :
       {std::pair("text", "text"), std::pair("input_text", "text"),
        std::pair("output_text", "text"), std::pair("refusal", "refusal")}) {
    if (!IsText(part.Find("type"), type)) continue;
    const Json* text = part.Find(member);
    return text == nullptr ? nullptr : text->AsString();
  }
  return nullptr;
}

std::optional<ApiError> NormalizeContent(const std::string& where, Json* message) {
  Json* content = message->Find("content");
  if (content == nullptr) {
    // An assistant's turn may hold tool calls only.
    if (*message->Find("role")->AsString() != "assistant") {
      return Wrong(where, "is required.");
    }
    message->AsObject()->emplace_back("content", "");
    return std::nullopt;
  }
  auto text = TextOf(*content, where);
  if (!text.ok()) return text.error();
  *content = std::move(text.value());
  return std::nullopt;
}

// OpenAI's API carries a call's arguments as JSON text; templates want the object.
std::optional<ApiError> NormalizeToolCall(const std::string& where, Json* call) {
  Json* function = call->Find("function");
  if (function == nullptr || function->AsObject() == nullptr) {
    return Wrong(where, "must be an object with a `function`.");
  }
  Json* arguments = function->Find("arguments");
  if (arguments == nullptr || arguments->AsString() == nullptr) return std::nullopt;
  auto parsed = ParseArguments(*arguments->AsString(), where + ".function.arguments");
  if (!parsed.ok()) return parsed.error();
  *arguments = std::move(parsed.value());
  return std::nullopt;
}

std::optional<ApiError> NormalizeToolCalls(const std::string& where, Json* message) {
  Json* calls = message->Find("tool_calls");
  if (calls == nullptr) return std::nullopt;
  if (calls->AsArray() == nullptr) return Wrong(where, "must be an array.");
  if (calls->AsArray()->empty()) {  // which templates would take for calls
    std::erase_if(*message->AsObject(),
                  [](const auto& member) { return member.first == "tool_calls"; });
    return std::nullopt;
  }
  for (size_t i = 0; i < calls->AsArray()->size(); ++i) {
    if (auto error = NormalizeToolCall(StrCat(where, "[", i, "]"), &(*calls->AsArray())[i])) {
      return error;
    }
  }
  return std::nullopt;
}

// Templates read a turn's reasoning by one of several names: transformers' _alias_reasoning_fields.
void NameReasoning(Json* message) {
  const Json* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (reasoning == nullptr) reasoning = message->Find(name);
  }
  if (reasoning == nullptr) return;
  const Json value = *reasoning;
  for (const char* name : {"thinking", "reasoning_content"}) {
    if (message->Find(name) == nullptr) message->AsObject()->emplace_back(name, value);
  }
}

std::optional<ApiError> NormalizeMessage(const std::string& where, Json* message) {
  if (message->AsObject() == nullptr) return Wrong(where, "must be an object.");
  // OpenAI's library sends an answer back with all its members. Templates that ask whether there
  // are, say, tool calls look for the key, so that transformers leaves them out, too.
  std::erase_if(*message->AsObject(), [](const auto& member) { return member.second.is_null(); });
  const Json* role = message->Find("role");
  if (role == nullptr || role->AsString() == nullptr) {
    return Wrong(where + ".role", "is required and must be a string.");
  }
  if (auto error = NormalizeContent(where + ".content", message)) return error;
  NameReasoning(message);
  return NormalizeToolCalls(where + ".tool_calls", message);
}

}  // namespace

ApiResult<std::string> TextOf(const Json& content, const std::string& where) {
  if (content.AsString() != nullptr) return *content.AsString();
  const Json::Array* parts = content.AsArray();
  if (parts == nullptr) {
    return Wrong(where,
                 "must be a string or an array of text parts, not " + content.KindName() + ".");
  }
  std::string text;
  for (size_t i = 0; i < parts->size(); ++i) {
    const std::string* part = PartText((*parts)[i]);
    if (part == nullptr) {
      return Wrong(
          StrCat(where, "[", i, "]"),
          "must be a part of text, {\"type\": \"text\", \"text\": \"…\"} (or \"input_text\" "
          "or \"output_text\"): this model takes text only.");
    }
    if (i > 0) text += '\n';
    text += *part;
  }
  return text;
}

ApiResult<Json> ParseArguments(const std::string& text, const std::string& where) {
  if (text.empty()) return Json(Json::Object());  // some clients' way to say that there are none
  auto parsed = Json::Parse(text);
  if (parsed.ok() && parsed->AsObject() != nullptr) return *std::move(parsed);
  return Wrong(where, StrCat("must be the text of a JSON object",
                             parsed.ok() ? "" : ": " + Message(parsed.status()), "."));
}

ApiResult<Json> NormalizeMessages(const Json& messages) {
  if (messages.AsArray() == nullptr) {
    return Wrong("messages", "must be an array, not " + messages.KindName() + ".");
  }
  if (messages.AsArray()->empty()) return Wrong("messages", "must not be empty.");
  Json result = messages;
  for (size_t i = 0; i < result.AsArray()->size(); ++i) {
    if (auto error = NormalizeMessage(StrCat("messages[", i, "]"), &(*result.AsArray())[i])) {
      return *error;
    }
  }
  return result;
}

}  // namespace aril::gateway

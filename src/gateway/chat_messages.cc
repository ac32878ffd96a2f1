#include "gateway/chat_messages.h"

#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"

namespace aril::gateway {
namespace {

ApiError Wrong(const std::string& where, const std::string& what) {
  return InvalidField(where, StrCat('`', where, "` ", what));
}

// The text of [{"type": "text", "text": …}, …].
ApiResult<std::string> JoinParts(const Json::Array& parts, const std::string& where) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json* type = parts[i].Find("type");
    const Json* part = parts[i].Find("text");
    const bool is_text = type != nullptr && type->AsString() != nullptr &&
                         *type->AsString() == "text" && part != nullptr &&
                         part->AsString() != nullptr;
    if (!is_text) {
      return Wrong(StrCat(where, "[", i, "]"),
                   "must be {\"type\": \"text\", \"text\": \"…\"}: this model takes text only.");
    }
    if (i > 0) text += '\n';
    text += *part->AsString();
  }
  return text;
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
  if (content->AsString() != nullptr) return std::nullopt;
  if (content->AsArray() == nullptr) {
    return Wrong(where,
                 "must be a string or an array of text parts, not " + content->KindName() + ".");
  }
  auto text = JoinParts(*content->AsArray(), where);
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
  if (arguments->AsString()->empty()) {  // some clients' way to say that there are none
    *arguments = Json::Object();
    return std::nullopt;
  }
  auto parsed = Json::Parse(*arguments->AsString());
  if (!parsed.ok() || parsed->AsObject() == nullptr) {
    return Wrong(where + ".function.arguments",
                 StrCat("must be the text of a JSON object",
                        parsed.ok() ? "" : ": " + Message(parsed.status()), "."));
  }
  *arguments = *std::move(parsed);
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

#include "gateway/message_builder.h"

#include <utility>

namespace aril::gateway {
namespace {

// Puts `more` behind what `text` says, if both say anything.
void Append(std::string_view separator, std::string_view more, std::string* text) {
  if (!text->empty() && !more.empty()) text->append(separator);
  text->append(more);
}

}  // namespace

Json MessageBuilder::ToJson(Message message) {
  Json::Object json = {{"role", std::move(message.role)}, {"content", std::move(message.content)}};
  const auto add = [&](const char* name, std::string text) {
    if (!text.empty()) json.emplace_back(name, std::move(text));
  };
  add("reasoning_content", std::move(message.reasoning));
  if (!message.tool_calls.empty()) json.emplace_back("tool_calls", std::move(message.tool_calls));
  add("tool_call_id", std::move(message.tool_call_id));
  add("name", std::move(message.name));
  return json;
}

void MessageBuilder::AddSystem(std::string_view role, std::string_view text) {
  if (messages_.empty() || !messages_.back().is_system()) {
    messages_.push_back({.role = std::string(role)});
  }
  Message& message = messages_.back();
  if (message.role != role) message.role = "system";
  Append("\n\n", text, &message.content);
}

void MessageBuilder::AddUser(std::string text) {
  messages_.push_back({.role = "user", .content = std::move(text)});
}

void MessageBuilder::AppendUser(std::string text) {
  if (messages_.empty() || messages_.back().role != "user") return AddUser(std::move(text));
  Append("\n", text, &messages_.back().content);
}

MessageBuilder::Message& MessageBuilder::Turn() {
  if (!ends_with_assistant()) messages_.push_back({.role = "assistant"});
  return messages_.back();
}

void MessageBuilder::Say(std::string_view text) { Append("\n", text, &Turn().content); }

void MessageBuilder::Think(std::string_view text) {
  if (!text.empty()) Append("\n", text, &Turn().reasoning);
}

void MessageBuilder::Call(const std::string& id, const std::string& name, Json arguments) {
  called_[id] = name;
  Turn().tool_calls.push_back(Json::Object{
      {"id", id},
      {"type", "function"},
      {"function", Json::Object{{"name", name}, {"arguments", std::move(arguments)}}}});
}

bool MessageBuilder::AddResult(const std::string& call_id, std::string text) {
  const auto called = called_.find(call_id);
  if (called == called_.end()) return false;
  messages_.push_back({.role = "tool",
                       .content = std::move(text),
                       .tool_call_id = call_id,
                       .name = called->second});  // which some templates want
  return true;
}

Json::Array MessageBuilder::Finish() {
  Json::Array messages;
  for (Message& message : messages_) messages.push_back(ToJson(std::move(message)));
  return messages;
}

}  // namespace aril::gateway

// The messages of a chat, put together from the finer pieces that newer APIs divide a conversation
// into.

#ifndef ARIL_GATEWAY_MESSAGE_BUILDER_H_
#define ARIL_GATEWAY_MESSAGE_BUILDER_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"

namespace aril::gateway {

// Takes the pieces in their order, and time in proportion to them. What an assistant thought, said
// and called in a row is one message, as templates know them: which of these came first is lost.
// What the system says in a row is one, too, as most templates know one, at the beginning. Not
// thread-safe.
class MessageBuilder {
 public:
  // `role`: "system" or "developer".
  void AddSystem(std::string_view role, std::string_view text);
  void AddUser(std::string text);
  // Goes on with the last message, if that is a user's.
  void AppendUser(std::string text);

  // Of the assistant. `arguments`: an object.
  void Say(std::string_view text);
  void Think(std::string_view text);
  void Call(const std::string& id, const std::string& name, Json arguments);

  // What a tool gave for a call; false: there was none with this id.
  [[nodiscard]] bool AddResult(const std::string& call_id, std::string text);

  // The last message is the assistant's; and it is text that could go on.
  bool ends_with_assistant() const { return !messages_.empty() && messages_.back().is_assistant(); }
  bool ends_with_beginning() const {
    return ends_with_assistant() && messages_.back().tool_calls.empty() &&
           !messages_.back().content.empty();
  }

  // All of them, as NormalizeMessages takes them. Once.
  Json::Array Finish();

 private:
  struct Message {
    std::string role;
    std::string content = {};
    std::string reasoning = {};  // of an assistant, and so is the next
    Json::Array tool_calls = {};
    std::string tool_call_id = {};  // of a tool, and so is the next
    std::string name = {};

    bool is_assistant() const { return role == "assistant"; }
    bool is_system() const { return role == "system" || role == "developer"; }
  };

  static Json ToJson(Message message);
  // The assistant's message that is the last one, or else a new one.
  Message& Turn();

  std::vector<Message> messages_;
  std::unordered_map<std::string, std::string> called_;  // functions, by the calls' ids
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_MESSAGE_BUILDER_H_

#include "gateway/response_input.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gateway/chat_messages.h"
#include "gateway/json_fields.h"

namespace aril::gateway {
namespace {

constexpr std::string_view kRoles[] = {"user", "assistant", "system", "developer"};
// Of a type's name that a request brings into a message.
constexpr size_t kMaxShownType = 64;

using MaybeError = std::optional<ApiError>;

// One of a chat, as it grows.
struct Message {
  std::string role;
  std::string content = {};
  std::string reasoning = {};  // of an assistant, and so is the next
  Json::Array tool_calls = {};
  std::string tool_call_id = {};  // of a tool, and so is the next
  std::string name = {};

  bool is_system() const { return role == "system" || role == "developer"; }
};

Json ToJson(Message message) {
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

// Puts `more` behind what `text` says, if both say anything.
void Append(std::string_view separator, std::string_view more, std::string* text) {
  if (!text->empty() && !more.empty()) text->append(separator);
  text->append(more);
}

// Puts items together to messages, in their order; takes time in proportion to them.
class InputReader {
 public:
  // Two of the system's that follow one another are one: most templates know one, at the beginning.
  void AddSystem(const std::string& role, const std::string& text);
  void AddUser(std::string text) {
    messages_.push_back({.role = "user", .content = std::move(text)});
  }
  MaybeError AddItem(const Json& item, const std::string& where);
  Json::Array Finish();

 private:
  MaybeError AddMessage(const Json& item, const std::string& where);
  MaybeError AddReasoning(const Json& item, const std::string& where);
  MaybeError AddCall(const Json& item, const std::string& where);
  MaybeError AddOutput(const Json& item, const std::string& where);
  // The assistant's message that is the last one, or else a new one.
  Message& Turn();

  std::vector<Message> messages_;
  std::unordered_map<std::string, std::string> called_;  // functions, by the calls' ids
};

Json::Array InputReader::Finish() {
  Json::Array messages;
  for (Message& message : messages_) messages.push_back(ToJson(std::move(message)));
  return messages;
}

Message& InputReader::Turn() {
  if (messages_.empty() || messages_.back().role != "assistant") {
    messages_.push_back({.role = "assistant"});
  }
  return messages_.back();
}

void InputReader::AddSystem(const std::string& role, const std::string& text) {
  if (messages_.empty() || !messages_.back().is_system()) messages_.push_back({.role = role});
  Message& message = messages_.back();
  if (message.role != role) message.role = "system";
  Append("\n\n", text, &message.content);
}

MaybeError InputReader::AddItem(const Json& item, const std::string& where) {
  if (item.AsObject() == nullptr) {
    return InvalidField(where, StrCat('`', where, "` must be an object, not ", item.KindName()));
  }
  JsonFields fields(item, where + ".");
  const std::string type = fields.GetString("type", "message");
  if (!fields.ok()) return fields.error();
  if (type == "message") return AddMessage(item, where);
  if (type == "reasoning") return AddReasoning(item, where);
  if (type == "function_call") return AddCall(item, where);
  if (type == "function_call_output") return AddOutput(item, where);
  fields.Fail("type",
              StrCat("\"", type.substr(0, kMaxShownType), "\" is not supported; an item is a ",
                     "message, reasoning, a function_call or a function_call_output",
                     type == "item_reference" ? ", whole: this server keeps none" : ""));
  return fields.error();
}

MaybeError InputReader::AddMessage(const Json& item, const std::string& where) {
  JsonFields fields(item, where + ".");
  const std::string role = fields.GetString("role", "");
  if (std::ranges::find(kRoles, role) == std::end(kRoles)) {
    fields.Fail("role", "is required, and must be user, assistant, system or developer");
  }
  const Json* content = fields.Find("content");
  if (content == nullptr) fields.Fail("content", "is required");
  if (!fields.ok()) return fields.error();
  auto text = TextOf(*content, where + ".content");
  if (!text.ok()) return text.error();
  if (role == "assistant") {
    Append("\n", text.value(), &Turn().content);
  } else if (role == "user") {
    AddUser(std::move(text.value()));
  } else {
    AddSystem(role, text.value());
  }
  return std::nullopt;
}

MaybeError InputReader::AddReasoning(const Json& item, const std::string& where) {
  JsonFields fields(item, where + ".");
  // Of another server, which alone can read it.
  if (!fields.GetString("encrypted_content", "").empty()) {
    fields.Fail("encrypted_content", "cannot be read here; leave the item out, or send `content`");
  }
  if (!fields.ok()) return fields.error();
  const Json* content = fields.Find("content");
  if (content == nullptr) return std::nullopt;  // a summary is for people
  const Json::Array* parts = content->AsArray();
  if (parts == nullptr) {
    fields.Fail("content", "must be an array, not " + content->KindName());
    return fields.error();
  }
  for (size_t i = 0; i < parts->size(); ++i) {
    const Json* text = (*parts)[i].Find("text");
    if (!IsText((*parts)[i].Find("type"), "reasoning_text") || text == nullptr ||
        text->AsString() == nullptr) {
      fields.Fail(StrCat("content[", i, "]"),
                  "must be {\"type\": \"reasoning_text\", \"text\": …}");
      return fields.error();
    }
    if (!text->AsString()->empty()) Append("\n", *text->AsString(), &Turn().reasoning);
  }
  return std::nullopt;
}

MaybeError InputReader::AddCall(const Json& item, const std::string& where) {
  JsonFields fields(item, where + ".");
  const std::string id = fields.GetString("call_id", "");
  const std::string name = fields.GetString("name", "");
  if (id.empty()) fields.Fail("call_id", "is required");
  if (name.empty()) fields.Fail("name", "is required");
  const std::string text = fields.GetString("arguments", "");
  if (!fields.ok()) return fields.error();
  // Its arguments were cut, and nobody made it.
  if (IsText(fields.Find("status"), "incomplete")) return std::nullopt;
  auto arguments = ParseArguments(text, where + ".arguments");
  if (!arguments.ok()) return arguments.error();
  called_[id] = name;
  Turn().tool_calls.push_back(Json::Object{
      {"id", id},
      {"type", "function"},
      {"function", Json::Object{{"name", name}, {"arguments", std::move(arguments.value())}}}});
  return std::nullopt;
}

MaybeError InputReader::AddOutput(const Json& item, const std::string& where) {
  JsonFields fields(item, where + ".");
  const std::string id = fields.GetString("call_id", "");
  if (id.empty()) fields.Fail("call_id", "is required");
  const Json* output = fields.Find("output");
  if (output == nullptr) fields.Fail("output", "is required");
  if (!fields.ok()) return fields.error();
  const auto called = called_.find(id);
  if (called == called_.end()) {
    fields.Fail("call_id", "is of no function_call before it; send the whole conversation");
    return fields.error();
  }
  auto text = TextOf(*output, where + ".output");
  if (!text.ok()) return text.error();
  messages_.push_back({.role = "tool",
                       .content = std::move(text.value()),
                       .tool_call_id = id,
                       .name = called->second});  // which some templates want
  return std::nullopt;
}

}  // namespace

ApiResult<Json> MessagesOfInput(const Json& input, const std::string& instructions) {
  InputReader reader;
  if (!instructions.empty()) reader.AddSystem("system", instructions);
  if (const std::string* text = input.AsString()) {
    reader.AddUser(*text);
  } else if (const Json::Array* items = input.AsArray(); items != nullptr && !items->empty()) {
    for (size_t i = 0; i < items->size(); ++i) {
      if (auto error = reader.AddItem((*items)[i], StrCat("input[", i, "]"))) return *error;
    }
  } else {
    return InvalidField("input", "`input` must be a text, or an array of items that is not empty.");
  }
  Json::Array messages = reader.Finish();
  if (messages.empty()) return InvalidField("input", "`input` has nothing that could be answered.");
  return NormalizeMessages(Json(std::move(messages)));
}

}  // namespace aril::gateway

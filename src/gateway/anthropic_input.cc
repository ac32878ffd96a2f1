#include "gateway/anthropic_input.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "gateway/chat_messages.h"
#include "gateway/json_fields.h"
#include "gateway/message_builder.h"

namespace aril::gateway {
namespace {

// Of a type's name that a request brings into a message.
constexpr size_t kMaxShownType = 64;

using MaybeError = std::optional<ApiError>;

enum class Role { kUser, kAssistant, kSystem };

std::optional<Role> RoleOf(const std::string& name) {
  if (name == "user") return Role::kUser;
  if (name == "assistant") return Role::kAssistant;
  if (name == "system") return Role::kSystem;
  return std::nullopt;
}

// A member that has to be there, and be a text.
std::string NeedString(std::string_view name, JsonFields& block) {
  if (block.Find(name) == nullptr) block.Fail(name, "is required");
  return block.GetString(name, "");
}

// A line that Claude Code puts before its instructions says who asks, and ends with a number of the
// request's own: behind it nothing would be found in the cache.
std::string_view WithoutAttribution(std::string_view text) {
  constexpr std::string_view kAttribution = "x-anthropic-billing-header:";
  if (!text.starts_with(kAttribution)) return text;
  const size_t end = text.find('\n');
  return end == std::string_view::npos ? "" : text.substr(end + 1);
}

void AddText(Role role, std::string_view text, MessageBuilder* messages) {
  switch (role) {
    case Role::kUser:
      return messages->AppendUser(std::string(text));
    case Role::kAssistant:
      return messages->Say(text);
    case Role::kSystem:
      text = WithoutAttribution(text);
      if (!text.empty()) messages->AddSystem("system", text);
  }
}

void AddToolUse(JsonFields& block, MessageBuilder* messages) {
  const std::string id = NeedString("id", block);
  const std::string name = NeedString("name", block);
  const Json* input = block.Find("input");
  if (input == nullptr || input->AsObject() == nullptr) {
    block.Fail("input", "is required, and must be an object");
  }
  if (block.ok()) messages->Call(id, name, *input);
}

// What a template could show an error by is not known: that it is one, its text says, if it says
// anything.
MaybeError AddToolResult(JsonFields& block, const std::string& where, MessageBuilder* messages) {
  const std::string id = NeedString("tool_use_id", block);
  const bool is_error = block.GetBool("is_error", false);
  if (!block.ok()) return block.error();
  std::string text;
  if (const Json* content = block.Find("content")) {
    auto read = TextOf(*content, where + ".content");
    if (!read.ok()) return read.error();
    text = std::move(read.value());
  }
  if (is_error && text.empty()) text = "Error";
  if (!messages->AddResult(id, std::move(text))) {
    block.Fail("tool_use_id", "is of no tool_use before it");
  }
  return block.error();
}

MaybeError AddBlock(const Json& json, Role role, const std::string& where,
                    MessageBuilder* messages) {
  if (json.AsObject() == nullptr) {
    return InvalidField(where, StrCat('`', where, "` must be an object, not ", json.KindName()));
  }
  JsonFields block(json, where + ".");
  const std::string type = NeedString("type", block);
  if (!block.ok()) return block.error();
  if (type == "text") {
    const std::string text = NeedString("text", block);
    if (block.ok()) AddText(role, text, messages);
  } else if (type == "tool_result" && role == Role::kUser) {
    return AddToolResult(block, where, messages);
  } else if (type == "tool_use" && role == Role::kAssistant) {
    AddToolUse(block, messages);
  } else if (type == "thinking" && role == Role::kAssistant) {
    // Whoever signed it: the text is there to be read.
    messages->Think(NeedString("thinking", block));
  } else if (type == "redacted_thinking" && role == Role::kAssistant) {
    // Nobody here can read it, nor has to.
  } else {
    block.Fail("type", StrCat("\"", type.substr(0, kMaxShownType), "\" is not supported; a block ",
                              "is text, of a user also a tool_result, of an assistant also ",
                              "thinking or a tool_use"));
  }
  return block.error();
}

MaybeError AddBlocks(const Json::Array& blocks, Role role, const std::string& where,
                     MessageBuilder* messages) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (auto error = AddBlock(blocks[i], role, StrCat(where, "[", i, "]"), messages)) return error;
  }
  return std::nullopt;
}

MaybeError AddMessage(const Json& json, const std::string& where, MessageBuilder* messages) {
  if (json.AsObject() == nullptr) {
    return InvalidField(where, StrCat('`', where, "` must be an object, not ", json.KindName()));
  }
  JsonFields fields(json, where + ".");
  const auto role = RoleOf(fields.GetString("role", ""));
  if (!role) fields.Fail("role", "is required, and must be user, assistant or system");
  const Json* content = fields.Find("content");
  const Json::Array* blocks = content == nullptr ? nullptr : content->AsArray();
  const std::string* text = content == nullptr ? nullptr : content->AsString();
  if (blocks == nullptr && text == nullptr) {
    fields.Fail("content", "is required, and must be a string or an array of blocks");
  }
  // An answer may have had none.
  const bool is_empty = blocks != nullptr && blocks->empty();
  if (is_empty && role != Role::kAssistant) fields.Fail("content", "must not be empty");
  if (!fields.ok()) return fields.error();
  if (blocks != nullptr) return AddBlocks(*blocks, *role, where + ".content", messages);
  AddText(*role, *text, messages);
  return std::nullopt;
}

// What is before all messages.
MaybeError AddSystem(const Json& system, MessageBuilder* messages) {
  if (const Json::Array* blocks = system.AsArray()) {
    return AddBlocks(*blocks, Role::kSystem, "system", messages);
  }
  if (system.AsString() == nullptr) {
    return InvalidField("system", StrCat("`system` must be a string or an array of blocks, not ",
                                         system.KindName(), "."));
  }
  AddText(Role::kSystem, *system.AsString(), messages);
  return std::nullopt;
}

}  // namespace

ApiResult<AnthropicInput> ReadAnthropicInput(const Json& messages, const Json* system) {
  const Json::Array* list = messages.AsArray();
  if (list == nullptr || list->empty()) {
    return InvalidField("messages", "`messages` must be an array that is not empty.");
  }
  MessageBuilder builder;
  if (system != nullptr) {
    if (auto error = AddSystem(*system, &builder)) return *error;
  }
  for (size_t i = 0; i < list->size(); ++i) {
    if (auto error = AddMessage((*list)[i], StrCat("messages[", i, "]"), &builder)) return *error;
  }
  const bool is_begun = builder.ends_with_assistant();
  if (is_begun && !builder.ends_with_beginning()) {
    return InvalidField("messages",
                        "`messages` must end with a user's, a tool's result, or a text of the "
                        "assistant's, which the answer then goes on with.");
  }
  Json::Array chat = builder.Finish();
  if (chat.empty()) return InvalidField("messages", "`messages` has nothing to be answered.");
  auto normalized = NormalizeMessages(Json(std::move(chat)));
  if (!normalized.ok()) return normalized.error();
  return AnthropicInput{.messages = std::move(normalized.value()), .is_begun = is_begun};
}

}  // namespace aril::gateway

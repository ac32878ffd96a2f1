#include "gateway/response_input.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "gateway/chat_messages.h"
#include "gateway/json_fields.h"
#include "gateway/message_builder.h"

namespace aril::gateway {
namespace {

constexpr std::string_view kRoles[] = {"user", "assistant", "system", "developer"};
// Of a type's name that a request brings into a message.
constexpr size_t kMaxShownType = 64;

using MaybeError = std::optional<ApiError>;

class InputReader {
 public:
  explicit InputReader(MessageBuilder* messages) : messages_(*messages) {}

  MaybeError AddItem(const Json& item, const std::string& where);

 private:
  MaybeError AddMessage(const Json& item, const std::string& where);
  MaybeError AddReasoning(const Json& item, const std::string& where);
  MaybeError AddCall(const Json& item, const std::string& where);
  MaybeError AddOutput(const Json& item, const std::string& where);

  MessageBuilder& messages_;
};

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
    messages_.Say(text.value());
  } else if (role == "user") {
    messages_.AddUser(std::move(text.value()));
  } else {
    messages_.AddSystem(role, text.value());
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
    messages_.Think(*text->AsString());
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
  messages_.Call(id, name, std::move(arguments.value()));
  return std::nullopt;
}

MaybeError InputReader::AddOutput(const Json& item, const std::string& where) {
  JsonFields fields(item, where + ".");
  const std::string id = fields.GetString("call_id", "");
  if (id.empty()) fields.Fail("call_id", "is required");
  const Json* output = fields.Find("output");
  if (output == nullptr) fields.Fail("output", "is required");
  if (!fields.ok()) return fields.error();
  auto text = TextOf(*output, where + ".output");
  if (!text.ok()) return text.error();
  if (!messages_.AddResult(id, std::move(text.value()))) {
    fields.Fail("call_id", "is of no function_call before it; send the whole conversation");
  }
  return fields.error();
}

}  // namespace

ApiResult<Json> MessagesOfInput(const Json& input, const std::string& instructions) {
  MessageBuilder builder;
  if (!instructions.empty()) builder.AddSystem("system", instructions);
  if (const std::string* text = input.AsString()) {
    builder.AddUser(*text);
  } else if (const Json::Array* items = input.AsArray(); items != nullptr && !items->empty()) {
    InputReader reader(&builder);
    for (size_t i = 0; i < items->size(); ++i) {
      if (auto error = reader.AddItem((*items)[i], StrCat("input[", i, "]"))) return *error;
    }
  } else {
    return InvalidField("input", "`input` must be a text, or an array of items that is not empty.");
  }
  Json::Array messages = builder.Finish();
  if (messages.empty()) return InvalidField("input", "`input` has nothing that could be answered.");
  return NormalizeMessages(Json(std::move(messages)));
}

}  // namespace aril::gateway

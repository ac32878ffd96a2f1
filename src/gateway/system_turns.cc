#include "gateway/system_turns.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "gateway/json_fields.h"

namespace aril::gateway {
namespace {

// Who says what in a conversation whose words stand nowhere else.
struct Said {
  const char* role;
  const char* word;
};
constexpr Said kConversation[] = {{"system", "Tamarisk"}, {"user", "Juniper"},
                                  {"system", "Hornbeam"}, {"assistant", "Rowan"},
                                  {"system", "Sycamore"}, {"user", "Alder"}};

bool IsSystem(const Json& message) {
  const Json* role = message.Find("role");
  return IsText(role, "system") || IsText(role, "developer");
}

bool IsUser(const Json& message) { return IsText(message.Find("role"), "user"); }

const std::string& ContentOf(const Json& message) { return *message.Find("content")->AsString(); }

}  // namespace

bool ShowsLaterSystem(const ChatTemplate& chat_template) {
  Json::Array messages;
  for (const auto& [role, word] : kConversation) {
    messages.push_back(Json::Object{{"role", role}, {"content", word}});
  }
  const auto text = chat_template.Render({.messages = std::move(messages),
                                          .tools = {},
                                          .documents = {},
                                          .add_generation_prompt = true,
                                          .variables = {},
                                          .unix_seconds = 0});
  if (!text.ok()) return false;
  size_t at = 0;
  for (const Said& said : kConversation) {
    at = text->find(said.word, at);
    if (at == std::string::npos) return false;
  }
  return true;
}

bool HasLaterSystem(const Json& messages) {
  const Json::Array& all = *messages.AsArray();
  return std::any_of(std::ranges::find_if_not(all, IsSystem), all.end(), IsSystem);
}

void FoldLaterSystem(Json* messages) {
  Json::Array& all = *messages->AsArray();
  Json::Array folded;
  auto next = std::ranges::find_if_not(all, IsSystem);
  std::move(all.begin(), next, std::back_inserter(folded));
  bool has_reminder = false;  // the last one
  for (; next != all.end(); ++next) {
    const bool is_system = IsSystem(*next);
    const bool is_user = is_system || IsUser(*next);
    if (is_system) {
      const std::string text =
          StrCat("<system-reminder>\n", ContentOf(*next), "\n</system-reminder>");
      *next = Json::Object{{"role", "user"}, {"content", text}};
    }
    const bool is_behind_user = !folded.empty() && IsUser(folded.back());
    if (is_behind_user && (is_system || (is_user && has_reminder))) {
      Json& content = *folded.back().Find("content");
      content = StrCat(*content.AsString(), '\n', ContentOf(*next));
    } else {
      folded.push_back(std::move(*next));
    }
    has_reminder = is_system || (is_user && has_reminder);
  }
  all = std::move(folded);
}

}  // namespace aril::gateway

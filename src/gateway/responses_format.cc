// OpenAI's responses format: an answer is a list of items (reasoning, a message, calls), a stream
// tells how they grow.

#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "gateway/answer_format.h"
#include "gateway/sse.h"

namespace aril::gateway {
namespace {

enum class ItemKind { kReasoning, kMessage, kCall };

struct Item {
  ItemKind kind = ItemKind::kMessage;
  std::string id;
  std::string text;      // of a call: its arguments
  Json::Array logprobs;  // of a message
  std::string name;      // of a call, and so is the next
  std::string call_id;
};

constexpr std::string_view kInProgress = "in_progress";
constexpr std::string_view kCompleted = "completed";
constexpr std::string_view kIncomplete = "incomplete";

// What a reasoning item and a message have as their content.
Json PartJson(const Item& item) {
  if (item.kind == ItemKind::kReasoning) {
    return Json::Object{{"type", "reasoning_text"}, {"text", item.text}};
  }
  return Json::Object{{"type", "output_text"},
                      {"text", item.text},
                      {"annotations", Json::Array()},
                      {"logprobs", item.logprobs}};
}

// `content`: [], or what it has.
Json ItemJson(const Item& item, std::string_view status, Json::Array content) {
  switch (item.kind) {
    case ItemKind::kReasoning:
      return Json::Object{{"type", "reasoning"},          {"id", item.id},
                          {"summary", Json::Array()},     {"content", std::move(content)},
                          {"encrypted_content", nullptr}, {"status", std::string(status)}};
    case ItemKind::kMessage:
      return Json::Object{{"type", "message"},
                          {"id", item.id},
                          {"status", std::string(status)},
                          {"role", "assistant"},
                          {"content", std::move(content)}};
    case ItemKind::kCall:
      return Json::Object{{"type", "function_call"}, {"id", item.id},
                          {"call_id", item.call_id}, {"name", item.name},
                          {"arguments", item.text},  {"status", std::string(status)}};
  }
  CHECK(false);
}

Json WholeItem(const Item& item, std::string_view status) {
  Json::Array content;
  if (item.kind != ItemKind::kCall) content.push_back(PartJson(item));
  return ItemJson(item, status, std::move(content));
}

Json UsageJson(const Usage& usage) {
  return Json::Object{
      {"input_tokens", usage.prompt_tokens},
      {"input_tokens_details", Json::Object{{"cached_tokens", usage.cached_tokens}}},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details",
       Json::Object{{"reasoning_tokens", usage.reasoning_tokens.value_or(0)}}},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

// How an answer ended, or that it has not.
struct Ending {
  std::string_view status = kInProgress;
  Json usage;
  Json error;
  Json incomplete_details;
};

Ending EndingOf(const std::optional<wire::FinishReason>& finish, const Usage& usage) {
  Ending ending = {.status = kCompleted, .usage = UsageJson(usage)};
  if (finish == wire::FinishReason::kLength) {
    ending.status = kIncomplete;
    ending.incomplete_details = Json::Object{{"reason", "max_output_tokens"}};
  }
  return ending;
}

// An empty answer is one, too, if nothing was cut before it.
bool LacksMessage(const std::vector<Item>& items, const Ending& ending) {
  return items.empty() ||
         (items.back().kind == ItemKind::kReasoning && ending.status == kCompleted);
}

class ResponsesFormat final : public AnswerFormat {
 public:
  ResponsesFormat(const AnswerHead& head, const std::string& repeated)
      : head_(head), repeated_(repeated) {}

  std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const override;
  std::unique_ptr<AnswerStream> Stream(bool with_usage) const override;

  // The object that answers, or that a stream's events hold, as JSON text.
  std::string Response(const std::vector<Item>& items, const Ending& ending) const;
  // An item that is the answer's `index`th.
  Item MakeItem(ItemKind kind, size_t index) const;
  Item MakeCall(const ToolCallDelta& call, size_t index) const;

 private:
  const AnswerHead head_;
  const std::string& repeated_;
};

std::string ResponsesFormat::Response(const std::vector<Item>& items, const Ending& ending) const {
  Json::Array output;
  for (size_t i = 0; i < items.size(); ++i) {
    // Only the last one can have been cut.
    const bool is_whole = i + 1 < items.size() || ending.status == kCompleted;
    output.push_back(WholeItem(items[i], is_whole ? kCompleted : kIncomplete));
  }
  const Json own = Json::Object{{"id", head_.id},
                                {"object", "response"},
                                {"created_at", head_.created},
                                {"status", std::string(ending.status)},
                                {"background", false},
                                {"error", ending.error},
                                {"incomplete_details", ending.incomplete_details},
                                {"model", head_.model},
                                {"output", std::move(output)},
                                {"usage", ending.usage}};
  std::string response = own.Dump();
  response.back() = ',';
  return response.append(repeated_, 1);  // without its brace
}

Item ResponsesFormat::MakeItem(ItemKind kind, size_t index) const {
  const std::string_view prefix = kind == ItemKind::kReasoning ? "rs"
                                  : kind == ItemKind::kMessage ? "msg"
                                                               : "fc";
  const std::string_view digits = std::string_view(head_.id).substr(head_.id.find('_') + 1);
  return {.kind = kind, .id = StrCat(prefix, '_', digits, '_', index)};
}

Item ResponsesFormat::MakeCall(const ToolCallDelta& call, size_t index) const {
  Item item = MakeItem(ItemKind::kCall, index);
  item.name = call.name;
  item.call_id = internal::CallId(head_.id, 0, call.index);
  return item;
}

std::string ResponsesFormat::Full(const std::vector<ChoiceView>& choices,
                                  const Usage& usage) const {
  const ChoiceView& choice = choices.front();  // there is one
  const ChoiceDelta& said = *choice.delta;
  std::vector<Item> items;
  if (!said.reasoning.empty()) {
    items.push_back(MakeItem(ItemKind::kReasoning, 0));
    items.back().text = said.reasoning;
  }
  if (!said.text.empty() || !said.logprobs.empty()) {
    items.push_back(MakeItem(ItemKind::kMessage, items.size()));
    items.back().text = said.text;
    if (choice.with_logprobs) items.back().logprobs = internal::TokenLogprobs(said.logprobs);
  }
  for (const ToolCallDelta& call : said.tool_calls) {
    items.push_back(MakeCall(call, items.size()));
    items.back().text = call.arguments;
  }
  const Ending ending = EndingOf(said.finish, usage);
  if (LacksMessage(items, ending)) items.push_back(MakeItem(ItemKind::kMessage, items.size()));
  return Response(items, ending);
}

class ResponsesStream final : public AnswerStream {
 public:
  explicit ResponsesStream(const ResponsesFormat& format) : format_(format) {}

  std::string Begin() override {
    AddResponse("response.created", {});
    AddResponse("response.in_progress", {});
    return std::exchange(events_, {});
  }
  std::string Append(const ChoiceView& choice) override;
  std::string End(const Usage& usage) override;
  std::string Fail(const ApiError& error) override;

 private:
  void Add(std::string_view type, Json::Object members);
  void AddResponse(std::string_view type, const Ending& ending) {
    events_ +=
        SseEvent(type, StrCat(R"({"type":")", type, R"(","sequence_number":)", next_number_++,
                              R"(,"response":)", format_.Response(items_, ending), '}'));
  }
  // The same, of the item that grows.
  void AddOfItem(std::string_view type, Json::Object members);
  void AddOfPart(std::string_view type, Json::Object members);
  void Say(ItemKind kind, const std::string& text, Json::Array logprobs);
  void Open(Item item);
  void Close(std::string_view status);

  const ResponsesFormat& format_;
  std::vector<Item> items_;
  bool is_open_ = false;  // the last one
  std::optional<wire::FinishReason> finish_;
  int64_t next_number_ = 0;
  std::string events_;  // to be returned
};

void ResponsesStream::Add(std::string_view type, Json::Object members) {
  Json::Object event = {{"type", std::string(type)}, {"sequence_number", next_number_++}};
  for (auto& member : members) event.push_back(std::move(member));
  events_ += SseEvent(type, Json(std::move(event)).Dump());
}

void ResponsesStream::AddOfItem(std::string_view type, Json::Object members) {
  Json::Object all = {{"item_id", items_.back().id},
                      {"output_index", static_cast<int64_t>(items_.size()) - 1}};
  for (auto& member : members) all.push_back(std::move(member));
  Add(type, std::move(all));
}

void ResponsesStream::AddOfPart(std::string_view type, Json::Object members) {
  members.insert(members.begin(), {"content_index", 0});
  AddOfItem(type, std::move(members));
}

void ResponsesStream::Open(Item item) {
  if (is_open_) Close(kCompleted);
  is_open_ = true;
  items_.push_back(std::move(item));
  Add("response.output_item.added", {{"output_index", static_cast<int64_t>(items_.size()) - 1},
                                     {"item", ItemJson(items_.back(), kInProgress, {})}});
  if (items_.back().kind == ItemKind::kCall) return;
  AddOfPart("response.content_part.added", {{"part", PartJson(items_.back())}});
}

void ResponsesStream::Say(ItemKind kind, const std::string& text, Json::Array logprobs) {
  if (!is_open_ || items_.back().kind != kind) Open(format_.MakeItem(kind, items_.size()));
  Item& item = items_.back();
  item.text += text;
  item.logprobs.insert(item.logprobs.end(), logprobs.begin(), logprobs.end());
  switch (kind) {
    case ItemKind::kReasoning:
      return AddOfPart("response.reasoning_text.delta", {{"delta", text}});
    case ItemKind::kMessage:
      return AddOfPart("response.output_text.delta",
                       {{"delta", text}, {"logprobs", std::move(logprobs)}});
    case ItemKind::kCall:
      return AddOfItem("response.function_call_arguments.delta", {{"delta", text}});
  }
}

void ResponsesStream::Close(std::string_view status) {
  const Item& item = items_.back();
  switch (item.kind) {
    case ItemKind::kReasoning:
      AddOfPart("response.reasoning_text.done", {{"text", item.text}});
      AddOfPart("response.content_part.done", {{"part", PartJson(item)}});
      break;
    case ItemKind::kMessage:
      AddOfPart("response.output_text.done", {{"text", item.text}, {"logprobs", item.logprobs}});
      AddOfPart("response.content_part.done", {{"part", PartJson(item)}});
      break;
    case ItemKind::kCall:
      AddOfItem("response.function_call_arguments.done",
                {{"name", item.name}, {"arguments", item.text}});
      break;
  }
  Add("response.output_item.done", {{"output_index", static_cast<int64_t>(items_.size()) - 1},
                                    {"item", WholeItem(item, status)}});
  is_open_ = false;
}

std::string ResponsesStream::Append(const ChoiceView& choice) {
  const ChoiceDelta& delta = *choice.delta;
  if (!delta.reasoning.empty()) Say(ItemKind::kReasoning, delta.reasoning, {});
  Json::Array logprobs;
  if (choice.with_logprobs) logprobs = internal::TokenLogprobs(delta.logprobs);
  if (!delta.text.empty() || !logprobs.empty()) {
    Say(ItemKind::kMessage, delta.text, std::move(logprobs));
  }
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (!call.name.empty()) Open(format_.MakeCall(call, items_.size()));
    if (!call.arguments.empty()) Say(ItemKind::kCall, call.arguments, {});
  }
  if (delta.finish) finish_ = delta.finish;
  return std::exchange(events_, {});
}

std::string ResponsesStream::End(const Usage& usage) {
  const Ending ending = EndingOf(finish_, usage);
  if (LacksMessage(items_, ending)) Open(format_.MakeItem(ItemKind::kMessage, items_.size()));
  if (is_open_) Close(ending.status);
  AddResponse(StrCat("response.", ending.status), ending);
  return std::exchange(events_, {});
}

std::string ResponsesStream::Fail(const ApiError& error) {
  const char* code = error.status == 429 ? "rate_limit_exceeded" : "server_error";
  if (is_open_) Close(kIncomplete);
  AddResponse(
      "response.failed",
      {.status = "failed", .error = Json::Object{{"code", code}, {"message", error.message}}});
  return std::exchange(events_, {});
}

std::unique_ptr<AnswerStream> ResponsesFormat::Stream(bool) const {
  return std::make_unique<ResponsesStream>(*this);
}

}  // namespace

std::unique_ptr<const AnswerFormat> MakeResponsesFormat(const AnswerHead& head,
                                                        const std::string& repeated) {
  return std::make_unique<const ResponsesFormat>(head, repeated);
}

}  // namespace aril::gateway

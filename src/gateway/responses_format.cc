// OpenAI's responses format: an answer is a list of items (reasoning, a message, calls), a stream
// tells how they grow.

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "gateway/answer_format.h"
#include "gateway/generation_fields.h"
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

// What a reasoning item and a message have as their content, as JSON text. `text`: quoted.
std::string PartText(const Item& item, const std::string& text) {
  if (item.kind == ItemKind::kReasoning) {
    return StrCat(R"({"type":"reasoning_text","text":)", text, '}');
  }
  return StrCat(R"({"type":"output_text","text":)", text, R"(,"annotations":[],"logprobs":)",
                Json(item.logprobs).Dump(), '}');
}

// `content`: the part that it has, or nothing. Of a call, its arguments, quoted.
std::string ItemText(const Item& item, std::string_view status, std::string_view content) {
  switch (item.kind) {
    case ItemKind::kReasoning:
      return StrCat(R"({"type":"reasoning","id":")", item.id, R"(","summary":[],"content":[)",
                    content, R"(],"encrypted_content":null,"status":")", status, "\"}");
    case ItemKind::kMessage:
      return StrCat(R"({"type":"message","id":")", item.id, R"(","status":")", status,
                    R"(","role":"assistant","content":[)", content, "]}");
    case ItemKind::kCall:
      return StrCat(R"({"type":"function_call","id":")", item.id, R"(","call_id":")", item.call_id,
                    R"(","name":)", JsonQuote(item.name), R"(,"arguments":)", content,
                    R"(,"status":")", status, "\"}");
  }
  CHECK(false);
}

std::string WholeItem(const Item& item, std::string_view status) {
  const std::string text = JsonQuote(item.text);
  return ItemText(item, status, item.kind == ItemKind::kCall ? text : PartText(item, text));
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

// What a client may do about it, in OpenAI's words.
const char* CodeOf(const ApiError& error) {
  if (error.status == 429) return "rate_limit_exceeded";
  return error.status < 500 ? "invalid_prompt" : "server_error";
}

// An answer has a message, though it be empty, unless it has calls or was cut while it reasoned.
bool LacksMessage(std::optional<ItemKind> last, const Ending& ending) {
  return !last || (*last == ItemKind::kReasoning && ending.status == kCompleted);
}

class ResponsesFormat final : public AnswerFormat {
 public:
  ResponsesFormat(const AnswerHead& head, const std::string& repeated)
      : head_(head), repeated_(repeated) {}

  std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const override;
  std::unique_ptr<AnswerStream> Stream(bool with_usage) const override;

  // The object that answers, or that a stream's events hold, as JSON text. `items`: likewise.
  std::string Response(const std::vector<std::string>& items, const Ending& ending) const;
  // An item that is the answer's `index`th.
  Item MakeItem(ItemKind kind, size_t index) const;
  Item MakeCall(const ToolCallDelta& call, size_t index) const;

 private:
  const AnswerHead head_;
  const std::string& repeated_;
};

std::string ResponsesFormat::Response(const std::vector<std::string>& items,
                                      const Ending& ending) const {
  return StrCat(R"({"id":)", JsonQuote(head_.id), R"(,"object":"response","created_at":)",
                head_.created, R"(,"status":")", ending.status, R"(","background":false,"error":)",
                ending.error.Dump(), R"(,"incomplete_details":)", ending.incomplete_details.Dump(),
                R"(,"model":)", JsonQuote(head_.model), R"(,"output":[)", Join(items, ","),
                R"(],"usage":)", ending.usage.Dump(), ',',
                std::string_view(repeated_).substr(1));  // without its brace
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
  const auto add = [&](Item item, std::string text) {
    item.text = std::move(text);
    items.push_back(std::move(item));
  };
  if (!said.reasoning.empty()) add(MakeItem(ItemKind::kReasoning, 0), said.reasoning);
  if (!said.text.empty() || (choice.with_logprobs && !said.logprobs.empty())) {
    add(MakeItem(ItemKind::kMessage, items.size()), said.text);
    if (choice.with_logprobs) items.back().logprobs = internal::TokenLogprobs(said.logprobs);
  }
  for (const ToolCallDelta& call : said.tool_calls) {
    add(MakeCall(call, items.size()), call.arguments);
  }
  const Ending ending = EndingOf(said.finish, usage);
  const auto last = items.empty() ? std::nullopt : std::optional(items.back().kind);
  if (LacksMessage(last, ending)) add(MakeItem(ItemKind::kMessage, items.size()), "");
  std::vector<std::string> output;
  for (const Item& item : items) {
    // The last one may have been cut.
    output.push_back(WholeItem(item, &item == &items.back() ? ending.status : kCompleted));
  }
  return Response(output, ending);
}

// Items that have ended are kept as their text, which the last event repeats.
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
  // `members`: of the event, as JSON text.
  void Add(std::string_view type, std::string_view members);
  void AddResponse(std::string_view type, const Ending& ending) {
    Add(type, StrCat(R"("response":)", format_.Response(ended_, ending)));
  }
  // The same, of the item that grows, and of its content.
  void AddOfItem(std::string_view type, std::string_view members);
  void AddOfPart(std::string_view type, std::string_view members) {
    AddOfItem(type, StrCat(R"("content_index":0,)", members));
  }
  std::string OutputIndex() const { return StrCat(R"("output_index":)", ended_.size()); }
  size_t NextIndex() const { return ended_.size() + (open_ ? 1 : 0); }
  void Say(ItemKind kind, const std::string& text, Json::Array logprobs);
  // Up to so many that the item's end may repeat them.
  void KeepLogprobs(Json::Array logprobs);
  void Open(Item item);
  void Close(std::string_view status);

  const ResponsesFormat& format_;
  std::vector<std::string> ended_;
  std::optional<Item> open_;  // the one that grows
  std::optional<ItemKind> last_;
  int64_t num_logprobs_ = 0;  // of the open one, alternatives included
  std::optional<wire::FinishReason> finish_;
  int64_t next_number_ = 0;
  std::string events_;  // to be returned
};

void ResponsesStream::Add(std::string_view type, std::string_view members) {
  events_ += SseEvent(type, StrCat(R"({"type":")", type, R"(","sequence_number":)", next_number_++,
                                   ',', members, '}'));
}

void ResponsesStream::AddOfItem(std::string_view type, std::string_view members) {
  Add(type, StrCat(R"("item_id":")", open_->id, "\",", OutputIndex(), ',', members));
}

void ResponsesStream::Open(Item item) {
  if (open_) Close(kCompleted);
  open_ = std::move(item);
  last_ = open_->kind;
  num_logprobs_ = 0;
  const bool is_call = open_->kind == ItemKind::kCall;
  Add("response.output_item.added",
      StrCat(OutputIndex(), R"(,"item":)", ItemText(*open_, kInProgress, is_call ? R"("")" : "")));
  if (is_call) return;
  AddOfPart("response.content_part.added", StrCat(R"("part":)", PartText(*open_, R"("")")));
}

void ResponsesStream::KeepLogprobs(Json::Array logprobs) {
  for (const Json& token : logprobs) {
    num_logprobs_ += 1 + std::ssize(*token.Find("top_logprobs")->AsArray());
  }
  if (num_logprobs_ > kMaxLogprobsRepeated) {
    open_->logprobs = {};
  } else {
    std::ranges::move(logprobs, std::back_inserter(open_->logprobs));
  }
}

void ResponsesStream::Say(ItemKind kind, const std::string& text, Json::Array logprobs) {
  if (!open_ || open_->kind != kind) Open(format_.MakeItem(kind, NextIndex()));
  open_->text += text;
  const std::string delta = StrCat(R"("delta":)", JsonQuote(text));
  switch (kind) {
    case ItemKind::kReasoning:
      return AddOfPart("response.reasoning_text.delta", delta);
    case ItemKind::kMessage:
      AddOfPart("response.output_text.delta",
                StrCat(delta, R"(,"logprobs":)", Json(logprobs).Dump()));
      return KeepLogprobs(std::move(logprobs));
    case ItemKind::kCall:
      return AddOfItem("response.function_call_arguments.delta", delta);
  }
}

void ResponsesStream::Close(std::string_view status) {
  const std::string text = JsonQuote(open_->text);
  std::string content = text;
  if (open_->kind == ItemKind::kCall) {
    AddOfItem("response.function_call_arguments.done",
              StrCat(R"("name":)", JsonQuote(open_->name), R"(,"arguments":)", text));
  } else {
    content = PartText(*open_, text);
    if (open_->kind == ItemKind::kReasoning) {
      AddOfPart("response.reasoning_text.done", StrCat(R"("text":)", text));
    } else {
      AddOfPart("response.output_text.done",
                StrCat(R"("text":)", text, R"(,"logprobs":)", Json(open_->logprobs).Dump()));
    }
    AddOfPart("response.content_part.done", StrCat(R"("part":)", content));
  }
  std::string item = ItemText(*open_, status, content);
  Add("response.output_item.done", StrCat(OutputIndex(), R"(,"item":)", item));
  ended_.push_back(std::move(item));
  open_.reset();
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
    if (!call.name.empty()) Open(format_.MakeCall(call, NextIndex()));
    if (!call.arguments.empty()) Say(ItemKind::kCall, call.arguments, {});
  }
  if (delta.finish) finish_ = delta.finish;
  return std::exchange(events_, {});
}

std::string ResponsesStream::End(const Usage& usage) {
  const Ending ending = EndingOf(finish_, usage);
  if (LacksMessage(last_, ending)) {
    Open(format_.MakeItem(ItemKind::kMessage, NextIndex()));
  }
  if (open_) Close(ending.status);
  AddResponse(StrCat("response.", ending.status), ending);
  return std::exchange(events_, {});
}

// An item that has not ended is in the response, but is not said to be done: clients would read it.
std::string ResponsesStream::Fail(const ApiError& error) {
  if (open_) ended_.push_back(WholeItem(*open_, kIncomplete));
  const Json::Object shown = {{"code", CodeOf(error)}, {"message", ShownMessage(error)}};
  AddResponse("response.failed", {.status = "failed", .error = shown});
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

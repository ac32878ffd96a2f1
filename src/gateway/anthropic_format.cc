// Anthropic's messages format: an answer is a message of blocks (thinking, text, uses of tools), a
// stream tells how they grow.

#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "gateway/answer_format.h"
#include "gateway/json_extent.h"
#include "gateway/sse.h"

namespace aril::gateway {
namespace {

enum class BlockKind { kThinking, kText, kToolUse };

// Of thinking. Clients that find none there do not send it back, and nothing here asks for it.
constexpr std::string_view kSignature = "unsigned";

struct Block {
  BlockKind kind = BlockKind::kText;
  std::string id;  // of a use, and so is the next
  std::string name;
};

// `content`: of a use, its input; else a text, quoted; as JSON text. `signature`: of thinking.
std::string BlockText(const Block& block, std::string_view content,
                      std::string_view signature = kSignature) {
  switch (block.kind) {
    case BlockKind::kThinking:
      return StrCat(R"({"type":"thinking","thinking":)", content, R"(,"signature":")", signature,
                    "\"}");
    case BlockKind::kText:
      return StrCat(R"({"type":"text","text":)", content, '}');
    case BlockKind::kToolUse:
      return StrCat(R"({"type":"tool_use","id":")", block.id, R"(","name":)", JsonQuote(block.name),
                    R"(,"input":)", content, '}');
  }
  CHECK(false);
}

// What has been found in the cache is not counted with the input.
Json UsageJson(const Usage& usage) {
  Json::Object json = {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
                       {"cache_creation_input_tokens", 0},
                       {"cache_read_input_tokens", usage.cached_tokens},
                       {"output_tokens", usage.completion_tokens}};
  if (usage.reasoning_tokens) {
    json.emplace_back("output_tokens_details",
                      Json::Object{{"thinking_tokens", *usage.reasoning_tokens}});
  }
  return json;
}

// The last call of an answer that was cut may not be: nobody can make it.
bool IsWhole(const ToolCallDelta& call) {
  JsonExtent extent;
  extent.Append(call.arguments);
  return extent.is_complete();
}

// How an answer ended, or that it has not.
struct Ending {
  Json stop_reason;
  Json stop_sequence;
};

class MessagesFormat final : public AnswerFormat {
 public:
  MessagesFormat(const AnswerHead& head, const CompletionRequest& request)
      : head_(head),
        num_prompt_tokens_(request.num_prompt_tokens()),
        fills_context_(request.fills_context) {}

  std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const override;
  std::unique_ptr<AnswerStream> Stream(bool with_usage) const override;

  // What a stream begins with: how much of the prompt is cached, its end will say.
  std::string Start() const { return Message({}, {}, {.prompt_tokens = num_prompt_tokens_}); }
  // How an answer ended with this.
  Ending EndingOf(const ChoiceDelta& said) const;
  Block MakeToolUse(const ToolCallDelta& call) const {
    return {.kind = BlockKind::kToolUse,
            .id = internal::CallId(head_.id, 0, call.index),
            .name = call.name};
  }

 private:
  // `blocks`: as JSON text.
  std::string Message(const std::vector<std::string>& blocks, const Ending& ending,
                      const Usage& usage) const;

  const AnswerHead head_;
  const int64_t num_prompt_tokens_;
  const bool fills_context_;
};

std::string MessagesFormat::Message(const std::vector<std::string>& blocks, const Ending& ending,
                                    const Usage& usage) const {
  return StrCat(R"({"id":)", JsonQuote(head_.id),
                R"(,"type":"message","role":"assistant","model":)", JsonQuote(head_.model),
                R"(,"content":[)", Join(blocks, ","), R"(],"stop_reason":)",
                ending.stop_reason.Dump(), R"(,"stop_sequence":)", ending.stop_sequence.Dump(),
                R"(,"usage":)", UsageJson(usage).Dump(), '}');
}

Ending MessagesFormat::EndingOf(const ChoiceDelta& said) const {
  if (said.finish == wire::FinishReason::kLength) {
    return {.stop_reason = fills_context_ ? "model_context_window_exceeded" : "max_tokens"};
  }
  if (said.ends_with_calls) return {.stop_reason = "tool_use"};
  if (said.stop_string) {
    return {.stop_reason = "stop_sequence", .stop_sequence = *said.stop_string};
  }
  return {.stop_reason = "end_turn"};
}

std::string MessagesFormat::Full(const std::vector<ChoiceView>& choices, const Usage& usage) const {
  const ChoiceDelta& said = *choices.front().delta;  // there is one
  std::vector<std::string> blocks;
  if (!said.reasoning.empty()) {
    blocks.push_back(BlockText({.kind = BlockKind::kThinking}, JsonQuote(said.reasoning)));
  }
  if (!said.text.empty()) blocks.push_back(BlockText({}, JsonQuote(said.text)));
  for (const ToolCallDelta& call : said.tool_calls) {
    if (IsWhole(call)) blocks.push_back(BlockText(MakeToolUse(call), call.arguments));
  }
  const Ending ending = EndingOf(said);
  const bool was_cut = said.finish == wire::FinishReason::kLength;
  if (said.text.empty() && said.tool_calls.empty() && !was_cut) {
    blocks.push_back(BlockText({}, R"("")"));
  }
  return Message(blocks, ending, usage);
}

class MessagesStream final : public AnswerStream {
 public:
  explicit MessagesStream(const MessagesFormat& format) : format_(format) {}

  std::string Begin() override {
    Add("message_start", StrCat(R"(,"message":)", format_.Start()));
    return std::exchange(events_, {});
  }
  std::string Append(const ChoiceView& choice) override;
  std::string End(const Usage& usage) override;
  // A block that has not ended stays open: clients would take it for whole.
  std::string Fail(const ApiError& error) override {
    return SseEvent("error", ErrorJson(error, ErrorStyle::kAnthropic));
  }

 private:
  // `members`: of the event, behind its type, as JSON text.
  void Add(std::string_view type, std::string_view members) {
    events_ += SseEvent(type, StrCat(R"({"type":")", type, '"', members, '}'));
  }
  void AddOfBlock(std::string_view type, std::string_view members) {
    Add(type, StrCat(R"(,"index":)", index_, members));
  }
  void AddDelta(std::string_view type, std::string_view member, std::string_view text) {
    AddOfBlock("content_block_delta", StrCat(R"(,"delta":{"type":")", type, R"(",")", member,
                                             R"(":)", JsonQuote(text), '}'));
  }
  void Open(const Block& block);
  void Close();
  // Goes on with a block of this kind, which is not a use, or begins one.
  void Continue(BlockKind kind) {
    if (open_ != kind) Open({.kind = kind});
  }

  const MessagesFormat& format_;
  int64_t index_ = 0;              // of the block that is open, or would be next
  std::optional<BlockKind> open_;  // the one that grows
  bool has_said_ = false;          // anything but what it thought
  Ending ending_;
  bool was_cut_ = false;
  std::string events_;  // to be returned
};

void MessagesStream::Open(const Block& block) {
  Close();
  open_ = block.kind;
  has_said_ |= block.kind != BlockKind::kThinking;
  const bool is_use = block.kind == BlockKind::kToolUse;
  AddOfBlock("content_block_start",
             StrCat(R"(,"content_block":)", BlockText(block, is_use ? "{}" : R"("")", "")));
}

void MessagesStream::Close() {
  if (!open_) return;
  if (open_ == BlockKind::kThinking) AddDelta("signature_delta", "signature", kSignature);
  AddOfBlock("content_block_stop", "");
  open_.reset();
  ++index_;
}

std::string MessagesStream::Append(const ChoiceView& choice) {
  const ChoiceDelta& said = *choice.delta;
  if (!said.reasoning.empty()) {
    Continue(BlockKind::kThinking);
    AddDelta("thinking_delta", "thinking", said.reasoning);
  }
  if (!said.text.empty()) {
    Continue(BlockKind::kText);
    AddDelta("text_delta", "text", said.text);
  }
  for (const ToolCallDelta& call : said.tool_calls) {
    if (!call.name.empty()) Open(format_.MakeToolUse(call));
    if (!call.arguments.empty()) AddDelta("input_json_delta", "partial_json", call.arguments);
  }
  if (said.finish) {
    ending_ = format_.EndingOf(said);
    was_cut_ = said.finish == wire::FinishReason::kLength;
  }
  return std::exchange(events_, {});
}

std::string MessagesStream::End(const Usage& usage) {
  if (!has_said_ && !was_cut_) Open({});
  Close();
  const Json delta = Json::Object{{"stop_reason", std::move(ending_.stop_reason)},
                                  {"stop_sequence", std::move(ending_.stop_sequence)}};
  Add("message_delta",
      StrCat(R"(,"delta":)", delta.Dump(), R"(,"usage":)", UsageJson(usage).Dump()));
  Add("message_stop", "");
  return std::exchange(events_, {});
}

std::unique_ptr<AnswerStream> MessagesFormat::Stream(bool) const {
  return std::make_unique<MessagesStream>(*this);
}

}  // namespace

std::unique_ptr<const AnswerFormat> MakeMessagesFormat(const AnswerHead& head,
                                                       const CompletionRequest& request) {
  return std::make_unique<const MessagesFormat>(head, request);
}

}  // namespace aril::gateway

// OpenAI's chat completions format.

#include <utility>

#include "gateway/chunk_format.h"

namespace aril::gateway {
namespace {

Json LogprobsObject(const std::vector<LogprobEntry>& entries) {
  return Json::Object{{"content", internal::TokenLogprobs(entries)}, {"refusal", nullptr}};
}

// `in_stream`: the call has an index, and those whose name is known already nothing else of it.
Json ToolCall(const ToolCallDelta& call, const std::string& id, bool in_stream) {
  Json::Object function;
  if (!call.name.empty()) function.emplace_back("name", call.name);
  function.emplace_back("arguments", call.arguments);
  Json::Object result;
  if (in_stream) result.emplace_back("index", call.index);
  if (!call.name.empty()) {
    result.emplace_back("id", id);
    result.emplace_back("type", "function");
  }
  result.emplace_back("function", std::move(function));
  return result;
}

// "stop", "length", "tool_calls" or null.
Json FinishReason(const ChoiceDelta& delta) {
  return delta.ends_with_calls ? "tool_calls" : internal::FinishReasonText(delta.finish);
}

// `key`: "message" or, in a stream, "delta".
Json Choice(const ChoiceView& view, const char* key, Json::Object said) {
  const ChoiceDelta& delta = *view.delta;
  Json::Object choice = {{"index", view.index},
                         {key, std::move(said)},
                         {"logprobs", view.with_logprobs ? LogprobsObject(delta.logprobs) : Json()},
                         {"finish_reason", FinishReason(delta)}};
  if (view.with_token_ids) choice.emplace_back("token_ids", internal::IdArray(delta.token_ids));
  return choice;
}

class ChatFormat final : public ChunkFormat {
 public:
  explicit ChatFormat(const AnswerHead& head)
      : id_(head.id),
        full_head_(internal::BeginAnswer(head, "chat.completion")),
        chunk_head_(internal::BeginAnswer(head, "chat.completion.chunk")) {}

  std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const override {
    std::string text = full_head_;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i > 0) text += ',';
      text += Choice(choices[i], "message", Message(choices[i])).Dump();
    }
    return text + internal::EndAnswer(usage);
  }
  std::optional<std::string> FirstChunk(int64_t index, bool null_usage) const override {
    const ChoiceDelta nothing;
    const ChoiceView view = {.index = index, .delta = &nothing};
    Json::Object delta = {{"role", "assistant"}, {"content", ""}};
    return chunk_head_ + Choice(view, "delta", std::move(delta)).Dump() +
           internal::EndChunk(null_usage);
  }
  std::string Chunk(const ChoiceView& choice, bool null_usage) const override {
    Json::Object delta;
    AddReasoning(*choice.delta, &delta);
    if (!choice.delta->text.empty()) delta.emplace_back("content", choice.delta->text);
    if (!choice.delta->tool_calls.empty()) delta.emplace_back("tool_calls", Calls(choice, true));
    return chunk_head_ + Choice(choice, "delta", std::move(delta)).Dump() +
           internal::EndChunk(null_usage);
  }
  std::string UsageChunk(const Usage& usage) const override {
    return chunk_head_ + internal::EndAnswer(usage);
  }

 private:
  Json Calls(const ChoiceView& choice, bool in_stream) const {
    Json::Array calls;
    for (const ToolCallDelta& call : choice.delta->tool_calls) {
      calls.push_back(ToolCall(call, internal::CallId(id_, choice.index, call.index), in_stream));
    }
    return calls;
  }
  // As DeepSeek's API and llama-server name it, and vLLM did.
  static void AddReasoning(const ChoiceDelta& said, Json::Object* message) {
    if (!said.reasoning.empty()) message->emplace_back("reasoning_content", said.reasoning);
  }
  Json::Object Message(const ChoiceView& choice) const {
    const ChoiceDelta& said = *choice.delta;
    const bool has_calls = !said.tool_calls.empty();
    Json::Object message = {{"role", "assistant"},
                            {"content", has_calls && said.text.empty() ? Json() : Json(said.text)},
                            {"refusal", nullptr}};
    AddReasoning(said, &message);
    if (has_calls) message.emplace_back("tool_calls", Calls(choice, false));
    return message;
  }

  const std::string id_;
  const std::string full_head_;
  const std::string chunk_head_;
};

}  // namespace

std::unique_ptr<const AnswerFormat> MakeChatFormat(const AnswerHead& head) {
  return std::make_unique<const ChatFormat>(head);
}

}  // namespace aril::gateway

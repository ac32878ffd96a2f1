// OpenAI's chat completions format.

#include <utility>

#include "base/utf8.h"
#include "gateway/answer_format.h"

namespace aril::gateway {
namespace {

// One token with its bytes, also where it holds only a part of a character.
Json::Object Token(const std::string& bytes, float logprob) {
  Json::Array array;
  for (const char c : bytes) array.push_back(int64_t{static_cast<unsigned char>(c)});
  return {{"token", LossyUtf8(bytes)},
          {"logprob", internal::LogprobValue(logprob)},
          {"bytes", std::move(array)}};
}

Json LogprobsObject(const std::vector<LogprobEntry>& entries) {
  Json::Array content;
  for (const LogprobEntry& entry : entries) {
    Json::Array top;
    for (size_t i = 0; i < entry.top.size(); ++i) {
      top.push_back(Token(entry.top[i], entry.logprobs.top[i].logprob));
    }
    Json::Object token = Token(entry.bytes, entry.logprobs.logprob);
    token.emplace_back("top_logprobs", std::move(top));
    content.push_back(std::move(token));
  }
  return Json::Object{{"content", std::move(content)}, {"refusal", nullptr}};
}

// `key`: "message" or, in a stream, "delta".
Json Choice(const ChoiceView& view, const char* key, Json::Object said) {
  const ChoiceDelta& delta = *view.delta;
  Json::Object choice = {{"index", view.index},
                         {key, std::move(said)},
                         {"logprobs", view.with_logprobs ? LogprobsObject(delta.logprobs) : Json()},
                         {"finish_reason", internal::FinishReasonText(delta.finish)}};
  if (view.with_token_ids) choice.emplace_back("token_ids", internal::IdArray(delta.token_ids));
  return choice;
}

class ChatFormat final : public AnswerFormat {
 public:
  explicit ChatFormat(const AnswerHead& head)
      : full_head_(internal::BeginAnswer(head, "chat.completion")),
        chunk_head_(internal::BeginAnswer(head, "chat.completion.chunk")) {}

  std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const override {
    std::string text = full_head_;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i > 0) text += ',';
      Json::Object message = {
          {"role", "assistant"}, {"content", choices[i].delta->text}, {"refusal", nullptr}};
      text += Choice(choices[i], "message", std::move(message)).Dump();
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
    if (!choice.delta->text.empty()) delta.emplace_back("content", choice.delta->text);
    return chunk_head_ + Choice(choice, "delta", std::move(delta)).Dump() +
           internal::EndChunk(null_usage);
  }
  std::string UsageChunk(const Usage& usage) const override {
    return chunk_head_ + internal::EndAnswer(usage);
  }

 private:
  const std::string full_head_;
  const std::string chunk_head_;
};

}  // namespace

std::unique_ptr<const AnswerFormat> MakeChatFormat(const AnswerHead& head) {
  return std::make_unique<const ChatFormat>(head);
}

}  // namespace aril::gateway

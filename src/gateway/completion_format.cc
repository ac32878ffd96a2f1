// OpenAI's legacy completions format.

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "gateway/chunk_format.h"

namespace aril::gateway {
namespace {

// A token's name: as `bytes:\xNN…` where it is no valid UTF-8 (OpenAI's form).
std::string TokenText(const std::string& bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  if (IsValidUtf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.append("\\x").append({kHex[byte >> 4], kHex[byte & 15]});
  }
  return text;
}

// Different tokens may have the same text; the likelier one gets the name.
Json TopLogprobs(const LogprobEntry& entry) {
  Json::Object top;
  const auto add = [&](const std::string& bytes, float logprob) {
    std::string text = TokenText(bytes);
    const bool taken =
        std::any_of(top.begin(), top.end(), [&](const auto& item) { return item.first == text; });
    if (!taken) top.emplace_back(std::move(text), internal::LogprobValue(logprob));
  };
  for (size_t i = 0; i < entry.top.size(); ++i) add(entry.top[i], entry.logprobs.top[i].logprob);
  // The chosen token is always there, as in OpenAI's answers: up to one more than asked for.
  add(entry.bytes, entry.logprobs.logprob);
  return top;
}

Json LogprobsObject(const std::vector<LogprobEntry>& entries) {
  Json::Array tokens;
  Json::Array token_logprobs;
  Json::Array top_logprobs;
  Json::Array text_offset;
  for (const LogprobEntry& entry : entries) {
    tokens.push_back(TokenText(entry.bytes));
    token_logprobs.push_back(entry.has_logprobs ? internal::LogprobValue(entry.logprobs.logprob)
                                                : Json());
    top_logprobs.push_back(entry.has_logprobs ? TopLogprobs(entry) : Json());
    text_offset.push_back(static_cast<int64_t>(entry.text_offset));
  }
  return Json::Object{{"tokens", std::move(tokens)},
                      {"token_logprobs", std::move(token_logprobs)},
                      {"top_logprobs", std::move(top_logprobs)},
                      {"text_offset", std::move(text_offset)}};
}

Json Choice(const ChoiceView& view) {
  const ChoiceDelta& delta = *view.delta;
  Json::Object choice = {{"index", view.index},
                         {"text", delta.text},
                         {"logprobs", view.with_logprobs ? LogprobsObject(delta.logprobs) : Json()},
                         {"finish_reason", internal::FinishReasonText(delta.finish)}};
  if (view.with_token_ids) choice.emplace_back("token_ids", internal::IdArray(delta.token_ids));
  return choice;
}

class CompletionFormat final : public ChunkFormat {
 public:
  explicit CompletionFormat(const AnswerHead& head)
      : head_(internal::BeginAnswer(head, "text_completion")) {}

  std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const override {
    std::string text = head_;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i > 0) text += ',';
      text += Choice(choices[i]).Dump();
    }
    return text + internal::EndAnswer(usage);
  }
  std::optional<std::string> FirstChunk(int64_t, bool) const override { return std::nullopt; }
  std::string Chunk(const ChoiceView& choice, bool null_usage) const override {
    return head_ + Choice(choice).Dump() + internal::EndChunk(null_usage);
  }
  std::string UsageChunk(const Usage& usage) const override {
    return head_ + internal::EndAnswer(usage);
  }

 private:
  const std::string head_;
};

}  // namespace

std::unique_ptr<const AnswerFormat> MakeCompletionFormat(const AnswerHead& head) {
  return std::make_unique<const CompletionFormat>(head);
}

}  // namespace aril::gateway

#include "gateway/answer_format.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/sha256.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace aril::gateway::internal {
namespace {

// JSON has no -inf; clients of vLLM know this number.
constexpr float kLowestLogprob = -9999.0f;

Json::Object Token(const std::string& bytes, float logprob) {
  Json::Array array;
  for (const char c : bytes) array.push_back(int64_t{static_cast<unsigned char>(c)});
  return {
      {"token", LossyUtf8(bytes)}, {"logprob", LogprobValue(logprob)}, {"bytes", std::move(array)}};
}

}  // namespace

// The double with the shortest decimal form that reads back as the float: -0.1, not
// -0.10000000149011612.
Json LogprobValue(float logprob) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), std::max(logprob, kLowestLogprob)).ptr;
  double result = 0;
  std::from_chars(text, end, result);
  return result;
}

void AppendFloats(const std::vector<float>& numbers, std::string* text) {
  text->push_back('[');
  char number[32];
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text->push_back(',');
    text->append(number, std::to_chars(number, number + sizeof(number), numbers[i]).ptr);
  }
  text->push_back(']');
}

Json FinishReasonText(const std::optional<wire::FinishReason>& finish) {
  if (!finish) return {};
  return *finish == wire::FinishReason::kStop ? "stop" : "length";
}

Json IdArray(const std::vector<int32_t>& ids) {
  Json::Array array;
  for (const int32_t id : ids) array.push_back(id);
  return array;
}

Json::Array TokenLogprobs(const std::vector<LogprobEntry>& entries) {
  Json::Array tokens;
  for (const LogprobEntry& entry : entries) {
    Json::Array top;
    for (size_t i = 0; i < entry.top.size(); ++i) {
      top.push_back(Token(entry.top[i], entry.logprobs.top[i].logprob));
    }
    Json::Object token = Token(entry.bytes, entry.logprobs.logprob);
    token.emplace_back("top_logprobs", std::move(top));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::string CallId(const std::string& answer_id, int64_t choice, int64_t call) {
  static constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const std::string digest = Sha256(StrCat(answer_id, '/', choice, '/', call));  // in hex
  uint64_t number = 0;
  std::from_chars(digest.data(), digest.data() + 16, number, 16);
  std::string id;
  for (int i = 0; i < 9; ++i, number /= kDigits.size()) {
    id.push_back(kDigits[number % kDigits.size()]);
  }
  return id;
}

}  // namespace aril::gateway::internal

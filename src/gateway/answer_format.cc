#include "gateway/answer_format.h"

#include <algorithm>
#include <charconv>

#include "base/strings.h"

namespace aril::gateway::internal {
namespace {

// JSON has no -inf; clients of vLLM know this number.
constexpr float kLowestLogprob = -9999.0f;

}  // namespace

std::string BeginAnswer(const AnswerHead& head, std::string_view object) {
  return StrCat(R"({"id":)", JsonQuote(head.id), R"(,"object":")", object, R"(","created":)",
                head.created, R"(,"model":)", JsonQuote(head.model), R"(,"choices":[)");
}

std::string EndAnswer(const Usage& usage) {
  return StrCat(
      R"(],"usage":{"prompt_tokens":)", usage.prompt_tokens, R"(,"completion_tokens":)",
      usage.completion_tokens, R"(,"total_tokens":)", usage.prompt_tokens + usage.completion_tokens,
      R"(,"prompt_tokens_details":{"cached_tokens":)", usage.cached_tokens, '}',
      usage.reasoning_tokens ? StrCat(R"(,"completion_tokens_details":{"reasoning_tokens":)",
                                      *usage.reasoning_tokens, '}')
                             : "",
      "}}");
}

std::string EndChunk(bool null_usage) { return null_usage ? R"(],"usage":null})" : "]}"; }

// The double with the shortest decimal form that reads back as the float: -0.1, not
// -0.10000000149011612.
Json LogprobValue(float logprob) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), std::max(logprob, kLowestLogprob)).ptr;
  double result = 0;
  std::from_chars(text, end, result);
  return result;
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

}  // namespace aril::gateway::internal

#include "gateway/chunk_format.h"

#include <set>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "gateway/sse.h"

namespace aril::gateway {
namespace {

class ChunkStream final : public AnswerStream {
 public:
  ChunkStream(const ChunkFormat& format, bool with_usage)
      : format_(format), with_usage_(with_usage) {}

  std::string Begin() override { return ""; }
  std::string Append(const ChoiceView& choice) override {
    std::string events;
    if (begun_.insert(choice.index).second) {
      const auto first = format_.FirstChunk(choice.index, with_usage_);
      if (first) events += SseEvent(*first);
    }
    const bool has_ids = choice.with_token_ids && !choice.delta->token_ids.empty();
    if (choice.delta->empty() && !has_ids) return events;
    return events + SseEvent(format_.Chunk(choice, with_usage_));
  }
  std::string End(const Usage& usage) override {
    return StrCat(with_usage_ ? SseEvent(format_.UsageChunk(usage)) : "", kSseDone);
  }
  std::string Fail(const ApiError& error) override {
    return StrCat(SseEvent(ErrorJson(error)), kSseDone);
  }

 private:
  const ChunkFormat& format_;
  const bool with_usage_;
  std::set<int64_t> begun_;  // choices
};

}  // namespace

std::unique_ptr<AnswerStream> ChunkFormat::Stream(bool with_usage) const {
  return std::make_unique<ChunkStream>(*this, with_usage);
}

namespace internal {

std::string BeginAnswer(const AnswerHead& head, std::string_view object) {
  return StrCat(R"({"id":)", JsonQuote(head.id), R"(,"object":")", object, R"(","created":)",
                head.created, R"(,"model":)", JsonQuote(head.model), R"(,"choices":[)");
}

std::string EndAnswer(const Usage& usage) {
  Json::Object of_completion;
  if (usage.reasoning_tokens) {
    of_completion.emplace_back("reasoning_tokens", *usage.reasoning_tokens);
  }
  if (usage.prediction) {
    of_completion.emplace_back("accepted_prediction_tokens", usage.prediction->num_accepted);
    of_completion.emplace_back("rejected_prediction_tokens", usage.prediction->num_rejected);
  }
  const std::string details = of_completion.empty() ? ""
                                                    : StrCat(R"(,"completion_tokens_details":)",
                                                             Json(std::move(of_completion)).Dump());
  return StrCat(
      R"(],"usage":{"prompt_tokens":)", usage.prompt_tokens, R"(,"completion_tokens":)",
      usage.completion_tokens, R"(,"total_tokens":)", usage.prompt_tokens + usage.completion_tokens,
      R"(,"prompt_tokens_details":{"cached_tokens":)", usage.cached_tokens, '}', details, "}}");
}

std::string EndChunk(bool null_usage) { return null_usage ? R"(],"usage":null})" : "]}"; }

}  // namespace internal
}  // namespace aril::gateway

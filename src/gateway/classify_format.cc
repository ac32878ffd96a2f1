// vLLM's format of classes.

#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "gateway/answer_format.h"

namespace aril::gateway {
namespace {

// Of an answer, about: most numbers have nine digits.
constexpr size_t kBytesPerNumber = 13;
constexpr size_t kBytesPerText = 64;
constexpr size_t kBytesPerAnswer = 320;

class ClassesFormat final : public AnswerFormat {
 public:
  explicit ClassesFormat(AnswerHead head) : head_(std::move(head)) {}

  std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const override {
    std::string text =
        StrCat(R"({"id":)", JsonQuote(head_.id), R"(,"object":"list","created":)", head_.created,
               R"(,"model":)", JsonQuote(head_.model), R"(,"data":[)");
    size_t num_bytes = kBytesPerAnswer;
    for (const ChoiceView& choice : choices) {
      num_bytes += choice.delta->pooled.size() * kBytesPerNumber + choice.delta->label.size();
    }
    text.reserve(num_bytes + choices.size() * kBytesPerText);
    for (const ChoiceView& choice : choices) {
      const std::vector<float>& numbers = choice.delta->pooled;
      if (choice.index > 0) text.push_back(',');
      text += StrCat(R"({"index":)", choice.index, R"(,"label":)", JsonQuote(choice.delta->label),
                     R"(,"probs":)");
      internal::AppendFloats(numbers, &text);
      text += StrCat(R"(,"num_classes":)", numbers.size(), '}');
    }
    text += StrCat(R"(],"usage":{"prompt_tokens":)", usage.prompt_tokens, R"(,"total_tokens":)",
                   usage.prompt_tokens, R"(,"completion_tokens":0,"prompt_tokens_details":null}})");
    return text;
  }

  std::unique_ptr<AnswerStream> Stream(bool /*with_usage*/) const override { CHECK(false); }

 private:
  const AnswerHead head_;
};

}  // namespace

std::unique_ptr<const AnswerFormat> MakeClassesFormat(const AnswerHead& head) {
  return std::make_unique<const ClassesFormat>(head);
}

}  // namespace aril::gateway

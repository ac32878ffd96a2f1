// OpenAI's format of embeddings.

#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "gateway/answer_format.h"

namespace aril::gateway {
namespace {

static_assert(std::endian::native == std::endian::little);

// Of a vector that is all zeros, its length would be none to divide by (torch's F.normalize).
constexpr double kLeastLength = 1e-12;
// Of an answer, about: most numbers have nine digits.
constexpr size_t kBytesPerNumber = 13;
constexpr size_t kBytesPerChoice = 64;

std::vector<float> Normalized(std::vector<float> vector) {
  double squares = 0;
  for (const float value : vector) squares += double{value} * double{value};
  const double length = std::max(std::sqrt(squares), kLeastLength);
  for (float& value : vector) value = static_cast<float>(double{value} / length);
  return vector;
}

void AppendBase64(const std::vector<float>& vector, std::string* text) {
  const size_t num_bytes = vector.size() * sizeof(float);
  std::string encoded((num_bytes + 2) / 3 * 4 + 1, '\0');  // it ends with a zero
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                     reinterpret_cast<const unsigned char*>(vector.data()),
                                     static_cast<int>(num_bytes));
  text->push_back('"');
  text->append(encoded, 0, static_cast<size_t>(length));
  text->push_back('"');
}

class EmbeddingsFormat final : public AnswerFormat {
 public:
  EmbeddingsFormat(AnswerHead head, const EmbeddingForm& form)
      : head_(std::move(head)), form_(form) {}

  std::string Full(const std::vector<ChoiceView>& choices, const Usage& usage) const override {
    std::string text = R"({"object":"list","data":[)";
    size_t num_numbers = 0;
    for (const ChoiceView& choice : choices) num_numbers += choice.delta->pooled.size();
    text.reserve(num_numbers * kBytesPerNumber + choices.size() * kBytesPerChoice);
    for (const ChoiceView& choice : choices) {
      if (choice.index > 0) text.push_back(',');
      text += StrCat(R"({"object":"embedding","index":)", choice.index, R"(,"embedding":)");
      const std::vector<float>& whole = choice.delta->pooled;
      const std::vector<float> vector = form_.normalize ? Normalized(whole) : whole;
      if (form_.as_base64) {
        AppendBase64(vector, &text);
      } else {
        internal::AppendFloats(vector, &text);
      }
      text.push_back('}');
    }
    text += StrCat(R"(],"model":)", JsonQuote(head_.model), R"(,"usage":{"prompt_tokens":)",
                   usage.prompt_tokens, R"(,"total_tokens":)", usage.prompt_tokens, R"(},"id":)",
                   JsonQuote(head_.id), R"(,"created":)", head_.created, '}');
    return text;
  }

  std::unique_ptr<AnswerStream> Stream(bool /*with_usage*/) const override { CHECK(false); }

 private:
  const AnswerHead head_;
  const EmbeddingForm form_;
};

}  // namespace

std::unique_ptr<const AnswerFormat> MakeEmbeddingsFormat(const AnswerHead& head,
                                                         const EmbeddingForm& form) {
  return std::make_unique<const EmbeddingsFormat>(head, form);
}

}  // namespace aril::gateway

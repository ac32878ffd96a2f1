#include "gateway/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "wire/limits.h"

namespace aril::gateway {
namespace {

constexpr size_t kMaxLogitBias = 1024;
// Each has two spellings.
constexpr size_t kMaxBadWords = wire::kMaxBadWords / 2;
constexpr size_t kMaxBadWordBytes = 1024;
// Below this the division by the temperature leaves nothing but the largest logit.
constexpr double kGreedyTemperature = 1e-5;

std::optional<int32_t> ParseTokenKey(const std::string& key, int64_t vocab_size) {
  int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  const bool whole = error == std::errc() && end == key.data() + key.size();
  // The round trip refuses "01", which would be a second name for token 1.
  if (!whole || id < 0 || id >= vocab_size || std::to_string(id) != key) return std::nullopt;
  return id;
}

void ReadLogitBias(JsonFields& fields, int64_t vocab_size, wire::SamplingParams* sampling) {
  const Json* bias = fields.Find("logit_bias");
  if (bias == nullptr) return;
  const Json::Object* object = bias->AsObject();
  if (object == nullptr) {
    return fields.Fail("logit_bias", "must be an object, not " + bias->KindName());
  }
  if (object->size() > kMaxLogitBias) {
    return fields.Fail("logit_bias", StrCat("must not have more than ", kMaxLogitBias, " tokens"));
  }
  for (const auto& [key, value] : *object) {
    const auto token = ParseTokenKey(key, vocab_size);
    double number = 0;
    if (!token || !value.AsNumber(&number) || std::abs(number) > wire::kMaxLogitBias) {
      return fields.Fail("logit_bias", StrCat("must map token ids between 0 and ", vocab_size - 1,
                                              " to numbers between ", -wire::kMaxLogitBias, " and ",
                                              wire::kMaxLogitBias));
    }
    sampling->logit_bias.emplace_back(*token, static_cast<float>(number));
  }
}

void ReadAllowedTokens(JsonFields& fields, int64_t vocab_size, wire::SamplingParams* sampling) {
  constexpr const char* kName = "allowed_token_ids";
  std::vector<int32_t>& tokens = sampling->allowed_token_ids;
  tokens = fields.GetIntArray(kName, 0, static_cast<int32_t>(vocab_size - 1));
  if (tokens.empty() && fields.Find(kName) != nullptr) fields.Fail(kName, "must not be empty");
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

// As vLLM does: what the tokenizer makes of the word by itself, and behind a space.
void AddBadWord(std::string_view word, const Tokenizer& tokenizer,
                std::vector<std::vector<int32_t>>* words) {
  word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
  for (const std::string& spelling : {std::string(word), StrCat(" ", word)}) {
    std::vector<int32_t> tokens =
        tokenizer.Encode(spelling, {.add_special_tokens = false, .parse_special_tokens = true});
    if (tokens.empty() || std::ranges::count(*words, tokens) > 0) continue;
    words->push_back(std::move(tokens));
  }
}

void ReadBadWords(JsonFields& fields, const ModelText& text, wire::SamplingParams* sampling) {
  constexpr const char* kName = "bad_words";
  const Json* words = fields.Find(kName);
  if (words == nullptr) return;
  const auto fail = [&](const std::string& message) { fields.Fail(kName, message); };
  const Json::Array* array = words->AsArray();
  if (array == nullptr) return fail("must be an array of strings, not " + words->KindName());
  if (array->size() > kMaxBadWords) {
    return fail(StrCat("must not hold more than ", kMaxBadWords, " words"));
  }
  for (const Json& item : *array) {
    const std::string* word = item.AsString();
    if (word == nullptr) return fail("must hold strings only");
    if (word->size() > kMaxBadWordBytes || word->find_first_not_of(' ') == std::string::npos) {
      return fail(StrCat("words must have 1 to ", kMaxBadWordBytes, " bytes, not only spaces"));
    }
    AddBadWord(*word, *text.tokenizer, &sampling->bad_words);
  }
  for (const std::vector<int32_t>& tokens : sampling->bad_words) {
    if (tokens.size() > wire::kMaxBadWordTokens) {
      return fail(StrCat("a word must not have more than ", wire::kMaxBadWordTokens, " tokens"));
    }
    if (std::ranges::max(tokens) >= text.vocab_size) {
      return fail("has a word that the model cannot say: leave it out");
    }
  }
}

}  // namespace

void ReadSampling(JsonFields& fields, const GenerationDefaults& defaults, const ModelText& text,
                  wire::SamplingParams* sampling) {
  const auto number = [&](std::string_view name, double fallback, double min, double max) {
    return static_cast<float>(fields.GetNumber(name, fallback, min, max));
  };
  const double temperature =
      fields.GetNumber("temperature", defaults.temperature, 0, wire::kMaxTemperature);
  sampling->temperature = temperature < kGreedyTemperature ? 0.0f : static_cast<float>(temperature);
  // -1 is vLLM's way to say "off".
  sampling->top_k = static_cast<int32_t>(
      std::max<int64_t>(0, fields.GetInt("top_k", defaults.top_k, -1, INT32_MAX)));
  const double top_p = fields.GetNumber("top_p", defaults.top_p, 0, 1);
  if (top_p == 0) fields.Fail("top_p", "must be greater than 0");
  sampling->top_p = static_cast<float>(std::max(top_p, wire::kMinTopP));
  sampling->min_p = number("min_p", defaults.min_p, 0, 1);
  sampling->repetition_penalty = number("repetition_penalty", defaults.repetition_penalty,
                                        wire::kMinRepetitionPenalty, wire::kMaxRepetitionPenalty);
  sampling->presence_penalty = number("presence_penalty", 0, -wire::kMaxPenalty, wire::kMaxPenalty);
  sampling->frequency_penalty =
      number("frequency_penalty", 0, -wire::kMaxPenalty, wire::kMaxPenalty);
  ReadLogitBias(fields, text.vocab_size, sampling);
  ReadAllowedTokens(fields, text.vocab_size, sampling);
  ReadBadWords(fields, text, sampling);
}

}  // namespace aril::gateway

#include "apps/bench_lengths.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "apps/bench_numbers.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr int64_t kMinPunicaTotal = 3;  // one token of prompt, two of output

constexpr int64_t kShortOutputs = 200;
constexpr int64_t kMaxShortPrompt = 2048 - kShortOutputs;  // which hardly any reaches

// In Punica's script one prompt in 330 has no token at all; servers want one.
int64_t DrawPunicaPrompt(int64_t max_tokens, BenchRandom& random) {
  const double prompt = 18 * std::exp(0.8 * random.Normal()) - 1;
  return static_cast<int64_t>(std::clamp(std::floor(prompt), 1.0, static_cast<double>(max_tokens)));
}

RequestLengths DrawPunicaLengths(int64_t max_total, BenchRandom& random) {
  RequestLengths lengths;
  lengths.prompt_tokens = DrawPunicaPrompt(max_total - 2, random);
  const int64_t total = random.UniformInt(0, max_total - 1);
  lengths.output_tokens = std::max<int64_t>(total - lengths.prompt_tokens, 2);
  return lengths;
}

}  // namespace

StatusOr<TokenRange> ParseTokenRange(const std::string& text) {
  const std::vector<std::string_view> parts = SplitText(text, ':');
  TokenRange range;
  bool is_good = false;
  if (parts.size() == 1) {
    is_good = ParseInt(parts[0], &range.min);
    range.max = range.min;
  } else if (parts.size() == 3 && parts[0] == "uniform") {
    is_good = ParseInt(parts[1], &range.min) && ParseInt(parts[2], &range.max);
  }
  if (is_good && range.min >= 1 && range.min <= range.max && range.max <= kMaxRequestTokens) {
    return range;
  }
  return InvalidArgument(StrCat("`", text,
                                "`: expected a number of tokens or uniform:MIN:MAX, from 1 to ",
                                kMaxRequestTokens, ", e.g. 128, uniform:8:512"));
}

std::string Name(const TokenRange& range) {
  if (range.min == range.max) return StrCat(range.min);
  return StrCat("uniform:", range.min, ":", range.max);
}

StatusOr<int64_t> ParsePunicaLengths(const std::string& text) {
  const std::vector<std::string_view> parts = SplitText(text, ':');
  int64_t max_total = 0;
  if (parts.size() == 2 && parts[0] == "punica" && ParseInt(parts[1], &max_total) &&
      max_total >= kMinPunicaTotal && max_total <= kMaxRequestTokens) {
    return max_total;
  }
  return InvalidArgument(StrCat(
      "`", text, "`: expected punica:MAX, the maximum of prompt and output ", "together from ",
      kMinPunicaTotal, " to ", kMaxRequestTokens, " tokens, e.g. punica:2048"));
}

StatusOr<LengthSpec> ParseGenerationLengths(const std::string& text) {
  if (text == "punica-short") {
    return LengthSpec{.output = {1, kShortOutputs}, .has_punica_prompts = true};
  }
  const auto max_total = ParsePunicaLengths(text);
  if (max_total.ok()) return LengthSpec{.punica_max_total = *max_total};
  return InvalidArgument(StrCat(Message(max_total.status()), ", or punica-short"));
}

RequestLengths DrawLengths(const LengthSpec& spec, BenchRandom& random) {
  if (spec.punica_max_total > 0) return DrawPunicaLengths(spec.punica_max_total, random);
  RequestLengths lengths;
  lengths.prompt_tokens = spec.has_punica_prompts
                              ? DrawPunicaPrompt(kMaxShortPrompt, random)
                              : random.UniformInt(spec.prompt.min, spec.prompt.max);
  lengths.output_tokens = random.UniformInt(spec.output.min, spec.output.max);
  return lengths;
}

}  // namespace aril

// How many tokens the requests of a load have.

#ifndef ARIL_APPS_BENCH_LENGTHS_H_
#define ARIL_APPS_BENCH_LENGTHS_H_

#include <cstdint>
#include <string>

#include "apps/bench_random.h"
#include "base/status.h"

namespace aril {

inline constexpr int64_t kMaxRequestTokens = 1'000'000;  // of a prompt, or of an answer

// Uniform in [min, max]; all the same if these are equal.
struct TokenRange {
  int64_t min = 1;
  int64_t max = 1;
};

// "128" or "uniform:8:512".
StatusOr<TokenRange> ParseTokenRange(const std::string& text);
std::string Name(const TokenRange& range);

struct LengthSpec {
  TokenRange prompt = {128, 128};
  TokenRange output = {64, 64};
  // Prompts as Punica's, outputs as above.
  bool has_punica_prompts = false;
  // Not 0: Punica's lengths (its benchmarks/bench_textgen.py, section 7.2 of the paper) instead:
  // the prompt log-normal with s = 0.8, loc = -1 and scale = 18, prompt and output together uniform
  // below this maximum, but the output of at least two tokens.
  int64_t punica_max_total = 0;

  // All requests have the same lengths.
  bool is_fixed() const {
    return punica_max_total == 0 && !has_punica_prompts && prompt.min == prompt.max &&
           output.min == output.max;
  }
};

// "punica:2048": the maximum.
StatusOr<int64_t> ParsePunicaLengths(const std::string& text);
// That, or "punica-short", as the text of the paper has it: prompts as above, outputs uniform in
// [1, 200], so that a thousand requests have 101 thousand tokens of output.
StatusOr<LengthSpec> ParseGenerationLengths(const std::string& text);

struct RequestLengths {
  int64_t prompt_tokens = 1;
  int64_t output_tokens = 1;
};

RequestLengths DrawLengths(const LengthSpec& spec, BenchRandom& random);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_LENGTHS_H_

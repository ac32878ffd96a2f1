// How far the numbers of a request may go, for both ends: a gateway refuses what is beyond
// (gateway/generation_fields.cc), and so does the codec of a cluster (cluster/codec_attempts.cc),
// which must take all that a gateway lets through. Doubles, as in JSON; rounded to float they keep
// their order.

#ifndef ARIL_WIRE_LIMITS_H_
#define ARIL_WIRE_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <limits>

namespace aril::wire {

inline constexpr double kMaxTemperature = 100;
// Whatever is less leaves the same as this: the most likely token, which always has more.
inline constexpr double kMinTopP = std::numeric_limits<float>::min();
inline constexpr double kMinRepetitionPenalty = 0.01;
inline constexpr double kMaxRepetitionPenalty = 100;
inline constexpr double kMaxPenalty = 2;  // presence, frequency; the least is its negative
inline constexpr double kMaxLogitBias = 100;
inline constexpr double kMaxAdapterWeight = 100;
// Most alternatives to report with each token.
inline constexpr int32_t kMaxLogprobs = 20;
// Tokens that alone may be chosen: more than any vocabulary has.
inline constexpr int kMaxAllowedTokenIds = 1 << 20;
// Of words that must not come, each spelling counted, and the tokens of one.
inline constexpr int kMaxBadWords = 512;
inline constexpr int kMaxBadWordTokens = 128;
// Of the schema or expression that an output must match.
inline constexpr size_t kMaxOutputFormatBytes = size_t{128} << 10;
// Of what is said of an output before it is there. A gateway cuts what is more.
inline constexpr int kMaxPredictionTokens = 16'384;
// Numbers of what is pooled of a prompt: what a hidden_size may be (spec/model_spec.cc).
inline constexpr int kMaxPooledSize = 1 << 17;
// Of a text that begins or ends reasoning.
inline constexpr size_t kMaxReasoningMarkerBytes = 64;
// What ends reasoning when its budget is spent.
inline constexpr int kMaxReasoningClosingTokens = 256;

}  // namespace aril::wire

#endif  // ARIL_WIRE_LIMITS_H_

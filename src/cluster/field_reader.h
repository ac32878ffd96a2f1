// Reads the fields of a peer's message within bounds, for the conversions of codec_bodies.h.

#ifndef ARIL_CLUSTER_FIELD_READER_H_
#define ARIL_CLUSTER_FIELD_READER_H_

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/strings.h"
#include "wire/cluster.h"

namespace aril::cluster {

inline constexpr int64_t kMaxTokens = int64_t{1} << 30;
inline constexpr int64_t kMaxPages = int64_t{1} << 40;
inline constexpr int64_t kMaxBytes = int64_t{1} << 50;
inline constexpr int64_t kMaxEpoch = int64_t{1} << 62;
// So that the next one is a number, too.
inline constexpr int64_t kMaxAttempt = int64_t{1} << 31;
inline constexpr int64_t kMaxAgeUs = int64_t{100} * 24 * 3600 * 1'000'000;
inline constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

// Longest texts, in bytes, and lists; far above what is meant, far below what would harm.
inline constexpr int kMaxName = 512;
inline constexpr int kMaxSource = 4096;
inline constexpr int kMaxReason = 8192;
inline constexpr int kMaxFeatures = 64;
inline constexpr int kMaxAdapters = 1 << 20;
inline constexpr int kMaxRunners = 1 << 16;
inline constexpr int kMaxSequences = 1 << 20;
inline constexpr int kMaxAdaptersPerSequence = 1024;

inline int64_t AgeOf(TimePoint time, TimePoint now) {
  return std::clamp<int64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now - time).count(), 0, kMaxAgeUs);
}

// Collects the first thing that is wrong, so that conversions read as lists of fields.
class FieldReader {
 public:
  explicit FieldReader(TimePoint now) : now_(now) {}

  int64_t Int(const char* field, int64_t value, int64_t min, int64_t max) {
    if (value >= min && value <= max) return value;
    Fail(StrCat(field, " is ", value, "; it must be from ", min, " to ", max));
    return min;
  }
  int32_t Int32(const char* field, int64_t value, int64_t min, int64_t max) {
    return static_cast<int32_t>(Int(field, value, min, max));
  }
  // No "not a number", no infinity.
  float Number(const char* field, float value, double min, double max) {
    const auto low = static_cast<float>(min);
    if (std::isfinite(value) && value >= low && value <= static_cast<float>(max)) return value;
    Fail(StrCat(field, " is ", value, "; it must be a number from ", min, " to ", max));
    return low;
  }
  float Number(const char* field, float value, double max) {
    return Number(field, value, -max, max);
  }
  std::string Text(const char* field, const std::string& value, int max) {
    if (value.size() <= static_cast<size_t>(max)) return value;
    Fail(StrCat(field, " has ", value.size(), " bytes; ", max, " may be"));
    return "";
  }
  bool Count(const char* field, int size, int max) {
    if (size <= max) return true;
    Fail(StrCat(field, " has ", size, " entries; ", max, " may be"));
    return false;
  }
  TimePoint Time(const char* field, int64_t age_us) {
    return now_ - std::chrono::microseconds(Int(field, age_us, 0, kMaxAgeUs));
  }
  SequenceId Sequence(int64_t value) { return SequenceId(Int("sequence", value, 0, kInt64Max)); }
  GatewayId Gateway(int64_t value) { return GatewayId(Int32("gateway", value, 0, kInt32Max)); }
  RunnerId Runner(int64_t value, int64_t min = 0) {
    return RunnerId(Int32("runner", value, min, kInt32Max));
  }
  AdapterId Adapter(int64_t value) {
    return AdapterId(Int32("adapter", value, kBaseModel.value(), kInt32Max));
  }
  uint32_t Attempt(int64_t value) {
    return static_cast<uint32_t>(Int("attempt", value, 0, kMaxAttempt));
  }
  Epoch EpochOf(int64_t value) { return Epoch(Int("epoch", value, 0, kMaxEpoch)); }
  int64_t Pages(const char* field, int64_t value) { return Int(field, value, 0, kMaxPages); }
  int32_t Tokens(const char* field, int64_t value) { return Int32(field, value, 0, kMaxTokens); }

  void Fail(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }
  const std::string& problem() const { return problem_; }

 private:
  const TimePoint now_;
  std::string problem_;
};

template <typename Ints>
std::vector<int32_t> ToVector(const Ints& ints) {
  return {ints.begin(), ints.end()};
}

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_FIELD_READER_H_

#include "wire/prefix_marks.h"

#include <bit>

#include "base/check.h"
#include "base/mix64.h"

namespace aril::wire {
namespace {

constexpr size_t kFinest = 32;  // marks at every 64th token
constexpr int64_t kStep = 64;
constexpr size_t kPerOctave = 16;  // of those behind

uint64_t Mix(uint64_t hash, const AdapterUse& use) {
  hash = Mix64(hash, static_cast<uint32_t>(use.id.value()));
  return Mix64(hash, std::bit_cast<uint32_t>(use.weight));
}

}  // namespace

int64_t PrefixDepth(size_t index) {
  CHECK_LT(index, kMaxPrefixMarks);
  if (index < kFinest) return static_cast<int64_t>(index + 1) * kStep;
  const size_t octave = (index - kFinest) / kPerOctave;
  const auto within = static_cast<int64_t>((index - kFinest) % kPerOctave) + 1;
  const int64_t first = kStep * static_cast<int64_t>(kFinest);
  return (first + within * first / static_cast<int64_t>(kPerOctave)) << octave;
}

std::vector<PrefixMark> MarkPrefixes(std::span<const AdapterFrom> adapters,
                                     std::span<const int32_t> prompt) {
  std::vector<PrefixMark> marks;
  uint64_t hash = 0;
  int64_t position = 0;
  for (size_t i = 0; i < kMaxPrefixMarks; ++i) {
    const int64_t depth = PrefixDepth(i);
    if (depth > std::ssize(prompt)) break;
    for (; position < depth; ++position) {
      for (const AdapterFrom& adapter : adapters) {
        const int64_t begin = adapter.first_token > 0 ? adapter.first_token : 0;
        if (position == begin) hash = Mix(hash, adapter.use);
      }
      hash = Mix64(hash, static_cast<uint32_t>(prompt[static_cast<size_t>(position)]));
    }
    marks.push_back(hash);
  }
  return marks;
}

}  // namespace aril::wire

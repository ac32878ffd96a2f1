#include "engine/drafts.h"

#include <algorithm>
#include <cmath>

namespace aril {

int64_t DraftTrust::Length(int64_t max) const {
  int64_t length = 0;
  for (double right = rate_; length < max && right >= kLeast; right *= rate_) ++length;
  return length;
}

void DraftTrust::OnChecked(int64_t num_right, bool one_was_wrong) {
  const double of_others = std::pow(1 - kOfChecked, static_cast<double>(num_right));
  rate_ = 1 - (1 - rate_) * of_others;
  if (one_was_wrong) rate_ *= 1 - kOfChecked;
}

void DraftTrust::OnPassedOver() { rate_ += (kAtFirst - rate_) * kOfPassedOver; }

std::vector<int32_t> MakeDraft(std::span<const int32_t> prompt, std::span<const int32_t> output,
                               const DraftOptions& options, int64_t length) {
  const int64_t num_prompt = std::ssize(prompt);
  const int64_t num_tokens = num_prompt + std::ssize(output);
  const auto token = [&](int64_t i) {
    return i < num_prompt ? prompt[static_cast<size_t>(i)]
                          : output[static_cast<size_t>(i - num_prompt)];
  };
  // How many tokens before `end` are those before the end of all.
  const auto match = [&](int64_t end) {
    int64_t count = 0;
    while (count < std::min(end, options.max_match) &&
           token(end - 1 - count) == token(num_tokens - 1 - count)) {
      ++count;
    }
    return count;
  };
  int64_t place = 0;
  int64_t best = options.min_match - 1;
  for (int64_t end = num_tokens - 1; end > 0 && best < options.max_match; --end) {
    const int64_t count = match(end);
    if (count <= best) continue;
    best = count;
    place = end;
  }
  std::vector<int32_t> draft;
  if (place == 0) return draft;
  for (int64_t i = place; std::ssize(draft) < length; ++i) {
    draft.push_back(i < num_tokens ? token(i) : draft[static_cast<size_t>(i - num_tokens)]);
  }
  return draft;
}

}  // namespace aril

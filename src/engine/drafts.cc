#include "engine/drafts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace aril {
namespace {

// Of an output and its prediction, which have much in common, more is looked at.
constexpr int64_t kMaxMatchOfPrediction = 16;

// A place in a text: what is before it, and how much of that is before the end, too.
struct Place {
  int64_t end = 0;
  int64_t count = 0;
};

// Two texts, one behind the other.
class Joined {
 public:
  Joined(std::span<const int32_t> first, std::span<const int32_t> second)
      : first_(first), second_(second) {}

  int64_t size() const { return std::ssize(first_) + std::ssize(second_); }
  int32_t operator[](int64_t i) const {
    return i < std::ssize(first_) ? first_[static_cast<size_t>(i)]
                                  : second_[static_cast<size_t>(i - std::ssize(first_))];
  }

 private:
  std::span<const int32_t> first_;
  std::span<const int32_t> second_;
};

// How many tokens before `end` in `text` are those at the end of `said`, which has `size`.
template <typename Text, typename Said>
int64_t CountSame(const Text& text, int64_t end, const Said& said, int64_t size, int64_t most) {
  most = std::min({most, end, size});
  int64_t count = 0;
  while (count < most && text[end - 1 - count] == said[size - 1 - count]) ++count;
  return count;
}

Place FindLast(const Joined& text, const DraftOptions& options) {
  Place best{.count = options.min_match - 1};
  for (int64_t end = text.size() - 1; end > 0 && best.count < options.max_match; --end) {
    const int64_t count = CountSame(text, end, text, text.size(), options.max_match);
    if (count > best.count) best = {end, count};
  }
  return best;
}

Place FindInPrediction(const DraftTexts& texts, const DraftOptions& options) {
  const int32_t* const prediction = texts.prediction.data();
  const int64_t num_output = std::ssize(texts.output);
  const auto distance = [&](int64_t end) { return std::abs(end - num_output); };
  Place best{.count = options.min_match - 1};
  for (int64_t end = 1; end < std::ssize(texts.prediction); ++end) {
    int64_t count =
        CountSame(prediction, end, texts.output.data(), num_output, kMaxMatchOfPrediction);
    if (count == end && count == num_output) count = kMaxMatchOfPrediction;
    const bool is_as_good = best.end > 0 && count == best.count;
    if (count > best.count || (is_as_good && distance(end) < distance(best.end))) {
      best = {end, count};
    }
  }
  return best;
}

}  // namespace

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

Draft MakeDraft(const DraftTexts& texts, const DraftOptions& options, int64_t length) {
  const Joined said(texts.prompt, texts.output);
  const Place back = options.looks_back ? FindLast(said, options) : Place();
  const Place predicted = FindInPrediction(texts, options);
  Draft draft;
  if (predicted.end > 0 && predicted.count >= back.count) {
    const auto rest = texts.prediction.subspan(static_cast<size_t>(predicted.end));
    const auto tokens = rest.first(std::min(rest.size(), static_cast<size_t>(length)));
    return {.tokens = {tokens.begin(), tokens.end()}, .is_predicted = true};
  }
  if (back.end == 0) return draft;
  for (int64_t i = back.end; draft.size() < length; ++i) {
    const int64_t own = i - said.size();
    draft.tokens.push_back(own < 0 ? said[i] : draft.tokens[static_cast<size_t>(own)]);
  }
  return draft;
}

}  // namespace aril

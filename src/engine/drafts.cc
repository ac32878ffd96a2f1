#include "engine/drafts.h"

#include <algorithm>
#include <cmath>

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
  const int64_t num_output = std::ssize(texts.output);
  const int64_t last = std::ssize(texts.prediction) - 1;  // there is something behind it
  Place best{.count = options.min_match - 1};
  // The nearest ones first.
  for (int64_t distance = 0; distance <= std::max(last, num_output); ++distance) {
    for (const int64_t end : {num_output - distance, num_output + distance}) {
      if (end < 1 || end > last) continue;
      int64_t count = CountSame(texts.prediction.data(), end, texts.output.data(), num_output,
                                kMaxMatchOfPrediction);
      if (count == end && count == num_output) count = kMaxMatchOfPrediction;
      if (count > best.count) best = {end, count};
      if (count == kMaxMatchOfPrediction) return best;
    }
  }
  return best;
}

}  // namespace

int64_t DraftTrust::Length(int64_t max, double row_cost) const {
  int64_t length = 0;
  for (double right = rate_; length < max && right >= row_cost; right *= rate_) ++length;
  return length;
}

void DraftTrust::OnChecked(int64_t num_right, bool one_was_wrong) {
  const double of_others = std::pow(1 - kOfChecked, static_cast<double>(num_right));
  rate_ = 1 - (1 - rate_) * of_others;
  if (one_was_wrong) rate_ *= 1 - kOfChecked;
}

void DraftTrust::OnPlainToken() { rate_ += std::max(0.0, kInItself - rate_) * kOfPlain; }

Draft MakeDraft(const DraftTexts& texts, const DraftOptions& options, const DraftLengths& lengths) {
  const Joined said(texts.prompt, texts.output);
  const Place place = lengths.said > 0 ? FindLast(said, options) : Place();
  const Place predicted = lengths.predicted > 0 ? FindInPrediction(texts, options) : Place();
  if (predicted.end > 0 && predicted.count >= place.count) {
    const auto rest = texts.prediction.subspan(static_cast<size_t>(predicted.end));
    const auto tokens = rest.first(std::min(rest.size(), static_cast<size_t>(lengths.predicted)));
    return {.tokens = {tokens.begin(), tokens.end()}, .is_predicted = true};
  }
  Draft draft;
  if (place.end == 0) return draft;
  for (int64_t i = place.end; draft.size() < lengths.said; ++i) {
    const int64_t own = i - said.size();
    draft.tokens.push_back(own < 0 ? said[i] : draft.tokens[static_cast<size_t>(own)]);
  }
  return draft;
}

}  // namespace aril

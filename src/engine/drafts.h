// Speculative decoding by prompt lookup: what followed the last time that a sequence said what it
// says now is a guess of what follows (Saxena, "Prompt Lookup Decoding", 2023; Yang et al.,
// "Inference with Reference", 2023); a better one is what follows in a text that its client takes
// for a likely output (OpenAI's predicted outputs). A step computes the guessed tokens beside the
// last one, and chooses a token behind each of them; a guess was right if it is what was chosen in
// its place. Tokens are a function of what is before them (kernels/sampling/sampling.h), so that
// guesses change when a token comes, and never which.

#ifndef ARIL_ENGINE_DRAFTS_H_
#define ARIL_ENGINE_DRAFTS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace aril {

inline constexpr int64_t kMaxDraftRows = 12;

struct DraftOptions {
  int64_t max_tokens = 0;  // of a draft; 0: none are made
  // In what the sequence says; else in predictions only.
  bool looks_back = true;
  // How many of the last tokens must have been said before, and at how many it is looked; from 1.
  int64_t min_match = 2;
  int64_t max_match = 4;
  // Of a step with drafts, all of its rows: as many as take little longer than one, since they wait
  // for the weights. On two cores of a CPU that is so up to 12 (docs/benchmarks.md).
  int64_t max_rows = kMaxDraftRows;
  // A step of n rows takes as long as n and these would if each took its time: however few there
  // are, the weights are read. On two cores of a CPU 18 to 70 (docs/benchmarks.md).
  double rows_of_step = 24;

  // Of a further row, as a part of what a token costs in a step of so many rows.
  double RowCost(int64_t num_rows) const {
    return static_cast<double>(num_rows) / (static_cast<double>(num_rows) + rows_of_step);
  }
};

// How many tokens of a sequence's drafts are worth their rows, by how many have been right so far.
class DraftTrust {
 public:
  static constexpr double kInItself = 0.5;
  static constexpr double kInPredictions = 0.9;

  explicit DraftTrust(double at_first) : rate_(at_first) {}

  // The longest draft of which the last token is as likely right as a row costs, at most `max`. 0
  // if next to nothing was right.
  int64_t Length(int64_t max, double row_cost) const;
  // That many were right, and, if not all, one was wrong.
  void OnChecked(int64_t num_right, bool one_was_wrong);
  // A token came without a draft: after a while one is tried again.
  void OnPlainToken();

 private:
  static constexpr double kOfChecked = 1.0 / 8;  // how much the last token counts
  static constexpr double kOfPlain = 1.0 / 256;  // and the way back

  double rate_;  // of tokens that are right, behind right ones
};

// What a draft is made from.
struct DraftTexts {
  std::span<const int32_t> prompt;
  std::span<const int32_t> output = {};
  std::span<const int32_t> prediction = {};  // of the output
};

struct Draft {
  std::vector<int32_t> tokens;
  bool is_predicted = false;  // they are the prediction's

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

// Most tokens of either kind; 0: there is to be none.
struct DraftLengths {
  int64_t said = 0;
  int64_t predicted = 0;
};

// Tokens that may follow prompt and output: those behind the last place there with the same
// max_match tokens before it, or as many of them as any place has, but at least min_match. Where
// that place is near the end, they go on into themselves.
// Or those of the prediction behind the place with the most tokens of the output before it, of
// several the one that is as far from its beginning as the output is long, or nearly so; also
// behind fewer than min_match if they are the whole output and the prediction begins with them.
// Rather these, unless the other place has more. Empty if there is no such place. Takes time in
// proportion to the texts, as attention does, and far less of it.
Draft MakeDraft(const DraftTexts& texts, const DraftOptions& options, const DraftLengths& lengths);

}  // namespace aril

#endif  // ARIL_ENGINE_DRAFTS_H_

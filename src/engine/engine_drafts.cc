// Who has guessed tokens tried in the next step, and what came of them.

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "engine/engine.h"

namespace aril {

DraftLengths Engine::DraftLengthsOf(const Sequence& s, int64_t num_running) const {
  const DraftOptions& drafts = options_.drafts;
  // The last of its tokens is chosen behind the draft.
  const int64_t most = std::min(drafts.max_tokens, s.NumLeftNext() - 1);
  if (!s.DecodesNext() || s.waits_for_format || most <= 0) return {};
  DraftLengths lengths;
  const double row_cost = drafts.RowCost(num_running);
  if (drafts.looks_back) lengths.said = s.trust_in_itself.Length(most, row_cost);
  // Waiting for each step costs a device that runs by itself more than others' predictions are
  // worth.
  if (!s.request.prediction.empty() && (drafts.looks_back || !model_.chooses_tokens())) {
    lengths.predicted = s.trust_in_prediction.Length(most, row_cost);
  }
  return lengths;
}

bool Engine::MayHaveDrafts() const {
  if (options_.drafts.max_tokens == 0 || has_state()) return false;
  const std::vector<const Sequence*> running = Running();
  return std::ssize(running) < options_.drafts.max_rows &&
         std::ranges::any_of(running, [&](const Sequence* s) {
           const DraftLengths lengths = DraftLengthsOf(*s, std::ssize(running));
           return lengths.said > 0 || lengths.predicted > 0;
         });
}

void Engine::MakeDrafts() {
  const bool may_have_drafts = MayHaveDrafts();
  int64_t format_work = FormatTurns::kDraftWork;
  const std::vector<const Sequence*> running = Running();
  for (const Sequence* const sequence : running) {
    Sequence& s = Get(sequence->id());
    s.draft = {};
    if (!may_have_drafts || s.rows_under_way > 0 || !IsReady(s)) continue;
    s.draft = MakeDraft(
        {.prompt = s.request.prompt, .output = s.output, .prediction = s.request.prediction},
        options_.drafts, DraftLengthsOf(s, std::ssize(running)));
    if (s.reasoning) {
      s.draft.tokens.resize(static_cast<size_t>(s.reasoning->CountChosen(s.draft.tokens)));
    }
    if (!s.matcher) continue;
    s.draft.tokens.resize(static_cast<size_t>(s.matcher->CountAhead(s.draft.tokens, &format_work)));
  }
}

void Engine::CountDraft(Sequence& sequence, const Draft& draft, int64_t num_right,
                        bool one_was_wrong) {
  if (draft.size() == 0) {
    sequence.trust_in_itself.OnPlainToken();
    sequence.trust_in_prediction.OnPlainToken();
    return;
  }
  sequence.trust_in(draft).OnChecked(num_right, one_was_wrong);
  ++stats_.num_drafts;
  stats_.num_draft_tokens += draft.size();
  stats_.num_accepted_tokens += num_right;
}

// What wrong guesses have taken.
void Engine::GiveBackPages(Sequence& sequence) {
  const auto needed =
      static_cast<size_t>(CeilDiv(sequence.num_computed, limits_.pages.page_tokens));
  if (sequence.pages.size() > needed) {
    sequence.pages.erase(sequence.pages.begin() + static_cast<int64_t>(needed),
                         sequence.pages.end());
  }
}

}  // namespace aril

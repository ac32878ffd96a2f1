// Runs a planned step on a device: one invocation of the model, sampling included.
//
// Submit and Collect are separate so that a device that runs by itself can work on step n while the
// host plans step n + 1 and submits it: a token that step n chooses and step n + 1 begins with
// never leaves the device. What the host has to do for a step (choose tokens in ways that the
// device does not know, report logprobs) it does in Submit, and so does the CPU all of it: the step
// has been run then.

#ifndef ARIL_ENGINE_EXECUTOR_H_
#define ARIL_ENGINE_EXECUTOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/format_turns.h"
#include "engine/sequence.h"
#include "grammar/token_table.h"
#include "kernels/cpu/context.h"
#include "kernels/sampling/sampling.h"
#include "memory/arena.h"
#include "model/model.h"

namespace aril {

// Rows of one sequence: its tokens [first_token, first_token + num_rows), whose pages it has.
struct StepItem {
  Sequence* sequence = nullptr;  // of which the executor changes what its matcher has found only
  int64_t first_token = 0;       // its next_num_computed()
  int64_t num_rows = 0;
  bool chooses_token = false;  // the rows reach its last token, and it wants another one
  bool pools = false;          // likewise, and it wants what is pooled of its prompt
  // If it does: of the rows, the last ones are of these tokens, guessed to follow the last one.
  Draft draft = {};

  int64_t num_choices() const { return chooses_token ? 1 + draft.size() : 0; }
};

struct ItemResult {
  // The token that it chooses; then, behind each token of the draft, or behind fewer of them, what
  // it chooses if all up to that one are right. An error concerns this sequence alone.
  std::vector<StatusOr<kernels::SampleResult>> samples;
  // It would choose one, but there was no time to find which its format allows: the last row has
  // to be run again.
  bool waits_for_format = false;
  // About prompt tokens first_token + 1 …, if asked for and not known yet.
  std::vector<wire::Logprobs> prompt_logprobs;
  // Of an item that pools (wire::TokenEvent).
  std::vector<float> pooled;
  std::string label;
};

// What a step's rows use.
struct SubmittedStep {
  int32_t num_segments = 0;
  int32_t num_adapters = 0;
};

// Sees the logits of every sampled row; for tests.
using LogitsObserver = std::function<void(const Sequence&, std::span<const float>)>;
// Sees every step when it is submitted; for benchmarks.
using StepObserver = std::function<void(std::span<const StepItem>)>;

// Used by the engine's thread.
class Executor {
 public:
  Executor(Model& model, const Arena& arena, kernels::CpuContext& context, int64_t format_work)
      : model_(model), arena_(arena), context_(context), turns_(format_work) {}

  // Whether a step with this item may be submitted before the one under way is collected: the
  // device can do all of it.
  bool CanFollow(const StepItem& item) const;

  // At least one item, in the order of the batch. Their sequences must live, and keep their pages,
  // until Collect. Before that another step may be submitted if it can follow, and no third one.
  // `waiting`: others with a format, which find meanwhile what it allows.
  SubmittedStep Submit(std::span<const StepItem> items, std::span<Sequence* const> waiting = {});
  // That alone.
  void FindAllowed(std::span<Sequence* const> waiting) { turns_.Run(waiting, context_.threads()); }
  // Whether the step last submitted is under way by itself: Collect would wait for it.
  bool is_under_way() const { return !pending_.empty() && pending_.back().is_under_way; }
  // Of the first step that was submitted and not collected: of each item.
  std::vector<ItemResult> Collect();

  void SetLogitsObserver(LogitsObserver observer) { observer_ = std::move(observer); }
  void SetStepObserver(StepObserver observer) { step_observer_ = std::move(observer); }

 private:
  // A row whose logits are wanted: to choose the token behind the first `num_drafted` ones of the
  // item's draft, or to report on prompt token `prompt_token`.
  struct LogitRow {
    int32_t row;
    size_t item;
    int64_t num_drafted = 0;
    std::optional<int64_t> prompt_token = std::nullopt;
    // Of a sequence with a format: the tokens that may be chosen; else empty.
    StatusOr<grammar::TokenSet> allowed = grammar::TokenSet();
  };

  // Of an item that pools.
  struct PooledRow {
    int32_t row;
    size_t item;
  };

  // A step that has been submitted and not collected.
  struct Pending {
    // Of the device.
    struct Choice {
      size_t item;
      int64_t num_drafted;
      int64_t position;  // of the token
    };
    std::vector<ItemResult> results;
    std::vector<Choice> choices;  // in order
    bool is_under_way = false;
  };
  Pending& last() { return pending_.back(); }

  void BuildBatch(std::span<const StepItem> items);
  void AddSegments(const StepItem& item, int32_t first_row);
  void AddLogitRows(const StepItem& item, size_t index, int32_t first_row);
  // Takes the rows away whose tokens the device chooses.
  void ChooseOnDevice(std::span<const StepItem> items);
  // Which tokens formats allow; while a device runs by itself, it computes the logits meanwhile.
  // Takes the rows away for which there was no time.
  void FindAllowed(std::span<const StepItem> items, std::span<Sequence* const> waiting);
  int64_t VocabSize(const Sequence& sequence) const {
    return Sequence::VocabSize(sequence.adapters, model_.spec().vocab_size);
  }
  bool DeviceChooses() const { return model_.chooses_tokens() && !observer_; }
  // Where the row's choice goes.
  StatusOr<kernels::SampleResult>& SampleOf(const LogitRow& row) {
    return last().results[row.item].samples[static_cast<size_t>(row.num_drafted)];
  }
  void Pool(std::span<const StepItem> items, std::span<const PooledRow> rows);
  void RunLogits(std::span<const StepItem> items, std::span<const LogitRow> rows);
  void RunLogitRow(const StepItem& item, const LogitRow& row, std::span<const float> logits,
                   kernels::SamplingScratch& scratch, wire::Logprobs* prompt_logprobs);

  Model& model_;
  const Arena& arena_;
  kernels::CpuContext& context_;
  LogitsObserver observer_;
  StepObserver step_observer_;

  // The tables of a step; members so that their memory is kept.
  std::vector<int32_t> tokens_;
  std::vector<std::vector<std::byte*>> page_tables_, state_tables_;
  std::vector<kernels::AttentionSequence> sequences_;
  std::vector<BatchSegment> segments_;
  std::vector<BatchSegment> item_segments_;  // of the item that is added
  std::vector<LogitRow> logit_rows_;
  std::vector<PooledRow> pooled_rows_;
  std::vector<kernels::SamplingScratch> scratch_;
  FormatTurns turns_;
  // Of the step last submitted: which of the device's choices is each sequence's token.
  std::unordered_map<const Sequence*, int32_t> choice_of_;
  std::deque<Pending> pending_;
};

}  // namespace aril

#endif  // ARIL_ENGINE_EXECUTOR_H_

// Runs a planned step on a device: one invocation of the model, sampling included.
//
// Submit and Collect are separate so that a device that runs by itself can work on step n while the
// host plans step n + 1. The CPU has nobody else to do the work: there Submit runs the step.

#ifndef ARIL_ENGINE_EXECUTOR_H_
#define ARIL_ENGINE_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/sequence.h"
#include "kernels/cpu/context.h"
#include "kernels/sampling/sampling.h"
#include "memory/arena.h"
#include "model/model.h"

namespace aril {

// Rows of one sequence: its tokens [num_computed, num_computed + num_rows), whose pages it has.
struct StepItem {
  const Sequence* sequence = nullptr;
  int64_t num_rows = 0;
};

struct ItemResult {
  // The next token, if the rows reached the sequence's last token and it wants one. An error
  // concerns this sequence alone.
  std::optional<StatusOr<kernels::SampleResult>> sample;
  // About prompt tokens num_computed + 1 …, if asked for and not known yet.
  std::vector<wire::Logprobs> prompt_logprobs;
};

struct StepResult {
  std::vector<ItemResult> items;  // as submitted
  int32_t num_segments = 0;
  int32_t num_adapters = 0;
};

// Sees the logits of every sampled row; for tests.
using LogitsObserver = std::function<void(const Sequence&, std::span<const float>)>;

// Used by the engine's thread.
class Executor {
 public:
  Executor(Model& model, const Arena& arena, kernels::CpuContext& context)
      : model_(model), arena_(arena), context_(context) {}

  // Items in the order of the batch. Their sequences must live, and keep their pages, until
  // Collect.
  void Submit(std::span<const StepItem> items);
  StepResult Collect();

  void SetLogitsObserver(LogitsObserver observer) { observer_ = std::move(observer); }

 private:
  // A row whose logits are wanted: to choose the next token, or to report on prompt token
  // `prompt_token`.
  struct LogitRow {
    int32_t row;
    size_t item;
    std::optional<int64_t> prompt_token;
  };

  void BuildBatch(std::span<const StepItem> items);
  void AddSegments(const Sequence& sequence, int32_t first_row, int32_t num_rows,
                   const Sequence* previous);
  void AddLogitRows(const StepItem& item, size_t index, int32_t first_row);
  // Takes the rows away whose tokens the device has chosen.
  void ChooseOnDevice(std::span<const StepItem> items);
  void RunLogits(std::span<const StepItem> items, std::span<const LogitRow> rows);
  void RunLogitRow(const StepItem& item, const LogitRow& row, std::span<const float> logits,
                   kernels::SamplingScratch& scratch, wire::Logprobs* prompt_logprobs);

  Model& model_;
  const Arena& arena_;
  kernels::CpuContext& context_;
  LogitsObserver observer_;

  // The tables of a step; members so that their memory is kept.
  std::vector<int32_t> tokens_;
  std::vector<std::vector<std::byte*>> page_tables_;
  std::vector<kernels::AttentionSequence> sequences_;
  std::vector<BatchSegment> segments_;
  std::vector<LogitRow> logit_rows_;
  std::vector<kernels::SamplingScratch> scratch_;
  StepResult result_;
};

}  // namespace aril

#endif  // ARIL_ENGINE_EXECUTOR_H_

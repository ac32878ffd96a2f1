#include "engine/executor.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"

namespace aril {
namespace {

// Of the token behind `num_drafted` more than there are, without them in `output`.
kernels::SampleInput InputOf(const Sequence& s, std::span<const float> logits,
                             int64_t num_drafted = 0) {
  const int64_t num_output =
      static_cast<int64_t>(s.output.size()) + s.tokens_under_way + num_drafted;
  return {.logits = logits,
          .params = &s.request.sampling,
          .prompt = s.request.prompt,
          .output = s.output,
          .masked = num_output >= s.request.min_tokens
                        ? std::span<const int32_t>()
                        : std::span<const int32_t>(s.request.stop_token_ids),
          .choice = s.request.choice,
          .position = s.next_num_tokens() + num_drafted};
}

bool DeviceCanChoose(const Sequence& s) {
  return s.request.format.is_text() && kernels::DeviceCanChoose(InputOf(s, {}));
}

// The token behind the first `num_drafted` ones of the item's draft, if it is not to be chosen.
std::optional<int32_t> NextOfClosing(const StepItem& item, int64_t num_drafted) {
  std::optional<BoundedReasoning> reasoning = item.sequence->reasoning;
  if (!reasoning) return std::nullopt;
  for (int64_t i = 0; i < num_drafted; ++i) {
    reasoning->Append(item.draft.tokens[static_cast<size_t>(i)]);
  }
  return reasoning->NextOfClosing();
}

}  // namespace

bool Executor::CanFollow(const StepItem& item) const {
  const Sequence& s = *item.sequence;
  const bool reports_prompt = s.request.sampling.prompt_logprobs && s.output.empty();
  const bool may_close =
      item.chooses_token && s.reasoning && s.reasoning->MayCloseBehind(s.tokens_under_way);
  return DeviceChooses() && !reports_prompt && !item.pools && !may_close && DeviceCanChoose(s);
}

SubmittedStep Executor::Submit(std::span<const StepItem> items,
                               std::span<Sequence* const> waiting) {
  CHECK_LT(pending_.size(), static_cast<size_t>(Model::kMaxStepsUnderWay));
  if (step_observer_) step_observer_(items);
  BuildBatch(items);
  pending_.emplace_back().results.resize(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    last().results[i].samples.resize(static_cast<size_t>(items[i].num_choices()));
  }
  const Status forward = model_.Forward({tokens_, sequences_, segments_});
  if (!forward.ok()) ExitOnDeviceError(forward);
  choice_of_.clear();
  if (DeviceChooses()) ChooseOnDevice(items);
  FindAllowed(items, waiting);
  for (size_t first = 0; first < logit_rows_.size(); first += Model::kMaxLogitRows) {
    const size_t count = std::min<size_t>(Model::kMaxLogitRows, logit_rows_.size() - first);
    RunLogits(items, std::span(logit_rows_).subspan(first, count));
  }
  for (size_t first = 0; first < pooled_rows_.size(); first += Model::kMaxLogitRows) {
    const size_t count = std::min<size_t>(Model::kMaxLogitRows, pooled_rows_.size() - first);
    Pool(items, std::span(pooled_rows_).subspan(first, count));
  }
  const Status ended = model_.End();
  if (!ended.ok()) ExitOnDeviceError(ended);
  last().is_under_way = DeviceChooses() && logit_rows_.empty() && pooled_rows_.empty();
  std::set<const ResidentAdapter*> adapters;
  for (const BatchSegment& segment : segments_) adapters.insert(segment.adapter);
  return {.num_segments = static_cast<int32_t>(segments_.size()),
          .num_adapters = static_cast<int32_t>(adapters.size())};
}

std::vector<ItemResult> Executor::Collect() {
  Pending step = std::move(pending_.front());
  pending_.pop_front();
  const StatusOr<std::span<const int32_t>> chosen = model_.Wait();
  if (!chosen.ok()) ExitOnDeviceError(chosen.status());
  for (size_t i = 0; i < step.choices.size(); ++i) {
    const Pending::Choice& choice = step.choices[i];
    step.results[choice.item].samples[static_cast<size_t>(choice.num_drafted)] =
        kernels::TakeFromDevice((*chosen)[i], choice.position);
  }
  return std::move(step.results);
}

void Executor::BuildBatch(std::span<const StepItem> items) {
  tokens_.clear();
  sequences_.clear();
  segments_.clear();
  logit_rows_.clear();
  pooled_rows_.clear();
  page_tables_.resize(std::max(page_tables_.size(), items.size()));
  state_tables_.resize(page_tables_.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const StepItem& item = items[i];
    const Sequence& sequence = *item.sequence;
    const auto first_row = static_cast<int32_t>(tokens_.size());
    const auto num_rows = static_cast<int32_t>(item.num_rows);
    const int64_t end = item.first_token + num_rows - item.draft.size();
    for (int64_t t = item.first_token; t < std::min(end, sequence.num_tokens()); ++t)
      tokens_.push_back(sequence.token(t));
    // The one that the step before chooses.
    if (end > sequence.num_tokens()) tokens_.push_back(-1 - choice_of_.at(&sequence));
    tokens_.insert(tokens_.end(), item.draft.tokens.begin(), item.draft.tokens.end());
    const auto find = [&](const std::vector<PageRef>& pages, std::vector<std::byte*>& table) {
      table.clear();
      for (const PageRef& page : pages) table.push_back(arena_.Address(page.id()));
    };
    find(sequence.pages, page_tables_[i]);
    find(sequence.state_pages, state_tables_[i]);
    const bool has_state = !sequence.state_pages.empty();
    sequences_.push_back({.first_row = first_row,
                          .num_rows = num_rows,
                          .first_position = item.first_token,
                          .pages = page_tables_[i],
                          .state = state_tables_[i],
                          .repeats = has_state && item.first_token < sequence.num_in_state});
    AddLogitRows(item, i, first_row);
    if (item.pools) pooled_rows_.push_back({.row = first_row + num_rows - 1, .item = i});
    AddSegments(item, first_row);
  }
}

// They join the last ones, where these end at the item and are of the same adapters, in the same
// order.
void Executor::AddSegments(const StepItem& item, int32_t first_row) {
  const Sequence& sequence = *item.sequence;
  const auto end = static_cast<int32_t>(first_row + item.num_rows);
  std::vector<BatchSegment>& added = item_segments_;
  added.clear();
  for (size_t i = 0; i < sequence.adapters.size(); ++i) {
    const Sequence::Adapter& adapter = sequence.adapters[i];
    const int64_t num_without =
        std::clamp<int64_t>(adapter.first_token - item.first_token, 0, item.num_rows);
    if (num_without == item.num_rows) continue;
    const auto begin = static_cast<int32_t>(first_row + num_without);
    added.push_back(
        {begin, end - begin, adapter.pin.adapter(), sequence.request.adapters[i].weight});
  }
  const auto follows = [](const BatchSegment& segment, const BatchSegment& last) {
    return last.first_row + last.num_rows == segment.first_row && last.adapter == segment.adapter &&
           last.weight == segment.weight;
  };
  if (added.size() <= segments_.size() &&
      std::ranges::equal(added, std::span(segments_).last(added.size()), follows)) {
    for (BatchSegment& last : std::span(segments_).last(added.size())) {
      last.num_rows = end - last.first_row;
    }
    return;
  }
  segments_.insert(segments_.end(), added.begin(), added.end());
}

void Executor::AddLogitRows(const StepItem& item, size_t index, int32_t first_row) {
  const Sequence& s = *item.sequence;
  if (s.request.sampling.prompt_logprobs && s.output.empty()) {
    // The row of token i tells about token i + 1. After an eviction some are known already.
    const auto known = static_cast<int64_t>(s.prompt_logprobs.size());
    const int64_t end = std::min(item.first_token + item.num_rows + 1, s.num_prompt());
    for (int64_t about = std::max(item.first_token + 1, known); about < end; ++about) {
      logit_rows_.push_back({.row = static_cast<int32_t>(first_row + about - 1 - item.first_token),
                             .item = index,
                             .prompt_token = about});
    }
  }
  const int64_t first_choice = first_row + item.num_rows - item.num_choices();
  for (int64_t k = 0; k < item.num_choices(); ++k) {
    logit_rows_.push_back(
        {.row = static_cast<int32_t>(first_choice + k), .item = index, .num_drafted = k});
  }
}

void Executor::ChooseOnDevice(std::span<const StepItem> items) {
  std::vector<LogitRow> others;
  std::vector<int32_t> rows;
  std::vector<kernels::SampleRow> how;
  for (const LogitRow& row : logit_rows_) {
    const Sequence& sequence = *items[row.item].sequence;
    if (row.prompt_token.has_value() || !DeviceCanChoose(sequence) ||
        NextOfClosing(items[row.item], row.num_drafted)) {
      others.push_back(row);
      continue;
    }
    const kernels::SampleInput input = InputOf(sequence, {}, row.num_drafted);
    choice_of_.emplace(&sequence, static_cast<int32_t>(rows.size()));
    last().choices.push_back({row.item, row.num_drafted, input.position});
    rows.push_back(row.row);
    how.push_back(kernels::DescribeForDevice(input, VocabSize(sequence)));
  }
  for (size_t first = 0; first < rows.size(); first += Model::kMaxLogitRows) {
    const size_t count = std::min<size_t>(Model::kMaxLogitRows, rows.size() - first);
    const Status chosen =
        model_.Choose(std::span(rows).subspan(first, count), std::span(how).subspan(first, count));
    if (!chosen.ok()) ExitOnDeviceError(chosen);
  }
  logit_rows_ = std::move(others);
}

void Executor::FindAllowed(std::span<const StepItem> items, std::span<Sequence* const> waiting) {
  const auto matcher_of = [&](const LogitRow& row) {
    auto& matcher = items[row.item].sequence->matcher;
    return !row.prompt_token && matcher ? &*matcher : nullptr;
  };
  std::vector<Sequence*> sequences(waiting.begin(), waiting.end());
  for (const LogitRow& row : logit_rows_) {
    if (matcher_of(row) != nullptr && row.num_drafted == 0) {
      sequences.push_back(items[row.item].sequence);
    }
  }
  if (sequences.empty()) return;
  FindAllowed(sequences);
  int64_t draft_work = FormatTurns::kDraftWork;
  std::vector<StatusOr<grammar::TokenSet>> ahead;  // of the item's draft
  std::erase_if(logit_rows_, [&](LogitRow& row) {
    grammar::TokenMatcher* const matcher = matcher_of(row);
    if (matcher == nullptr) return false;
    const StepItem& item = items[row.item];
    const auto& stop_tokens = item.sequence->request.stop_token_ids;
    ItemResult& result = last().results[row.item];
    if (row.num_drafted > 0) {
      const bool is_known = row.num_drafted < std::ssize(result.samples);
      if (is_known) row.allowed = std::move(ahead[static_cast<size_t>(row.num_drafted - 1)]);
      return !is_known;
    }
    if (!matcher->HasFound()) {
      result.samples.clear();
      return result.waits_for_format = true;
    }
    row.allowed = matcher->TakeAllowed(stop_tokens);
    ahead = matcher->LookAhead(item.draft.tokens, stop_tokens, &draft_work);
    result.samples.resize(1 + ahead.size());
    return false;
  });
}

void Executor::Pool(std::span<const StepItem> items, std::span<const PooledRow> rows) {
  std::vector<int32_t> row_numbers;
  for (const PooledRow& row : rows) row_numbers.push_back(row.row);
  const StatusOr<MatrixView<const float>> states = model_.HiddenStates(row_numbers);
  if (!states.ok()) ExitOnDeviceError(states.status());
  const auto scaling = static_cast<float>(model_.spec().logits_scaling);
  context_.threads().ParallelFor(std::ssize(rows), [&](int64_t i) {
    const PooledRow& row = rows[static_cast<size_t>(i)];
    std::vector<float> state(states->row(i), states->row(i) + states->cols);
    for (float& value : state) value *= scaling;
    const Sequence& sequence = *items[row.item].sequence;
    ItemResult& result = last().results[row.item];
    const ClassHead* const head = sequence.class_head();
    result.pooled = head == nullptr ? std::move(state) : head->Logits(state);
    if (head == nullptr) return;
    result.label = head->LabelOf(result.pooled);
    if (sequence.request.pooling == wire::Pooling::kClassProbabilities) {
      result.pooled = head->Probabilities(result.pooled);
    }
  });
}

void Executor::RunLogits(std::span<const StepItem> items, std::span<const LogitRow> rows) {
  std::vector<int32_t> row_numbers;
  std::vector<wire::Logprobs*> prompt_logprobs;
  for (const LogitRow& row : rows) {
    row_numbers.push_back(row.row);
    if (row.prompt_token.has_value()) last().results[row.item].prompt_logprobs.emplace_back();
  }
  // Pointers only once the vectors have stopped growing: rows of an item are in order.
  std::vector<size_t> next(items.size());
  for (size_t i = 0; i < items.size(); ++i) next[i] = last().results[i].prompt_logprobs.size();
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    prompt_logprobs.push_back(row->prompt_token.has_value()
                                  ? &last().results[row->item].prompt_logprobs[--next[row->item]]
                                  : nullptr);
  }
  std::reverse(prompt_logprobs.begin(), prompt_logprobs.end());

  const StatusOr<MatrixView<const float>> computed = model_.Logits(row_numbers);
  if (!computed.ok()) ExitOnDeviceError(computed.status());
  const MatrixView<const float>& logits = *computed;
  const auto row_logits = [&](size_t i) {
    const int64_t vocab_size = VocabSize(*items[rows[i].item].sequence);
    CHECK_LE(vocab_size, logits.cols);
    return std::span(logits.row(static_cast<int64_t>(i)), static_cast<size_t>(vocab_size));
  };
  // One scratch per thread: a chunk is what one thread takes, every n-th row.
  const auto num_chunks = static_cast<size_t>(context_.threads().num_threads());
  scratch_.resize(num_chunks);
  context_.threads().ParallelFor(static_cast<int64_t>(num_chunks), [&](int64_t chunk) {
    for (auto i = static_cast<size_t>(chunk); i < rows.size(); i += num_chunks) {
      RunLogitRow(items[rows[i].item], rows[i], row_logits(i), scratch_[static_cast<size_t>(chunk)],
                  prompt_logprobs[i]);
    }
  });
  if (!observer_) return;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].prompt_token.has_value()) observer_(*items[rows[i].item].sequence, row_logits(i));
  }
}

void Executor::RunLogitRow(const StepItem& item, const LogitRow& row, std::span<const float> logits,
                           kernels::SamplingScratch& scratch, wire::Logprobs* prompt_logprobs) {
  const Sequence& s = *item.sequence;
  const wire::SamplingParams& params = s.request.sampling;
  if (row.prompt_token.has_value()) {
    *prompt_logprobs = kernels::ComputeLogprobs(logits, s.token(*row.prompt_token),
                                                params.num_logprobs.value_or(0));
    return;
  }
  if (!row.allowed.ok()) {
    SampleOf(row) = row.allowed.status();
    return;
  }
  kernels::SampleInput input = InputOf(s, logits, row.num_drafted);
  std::vector<int32_t> output;
  if (row.num_drafted > 0) {
    output = s.output;
    output.insert(output.end(), item.draft.tokens.begin(),
                  item.draft.tokens.begin() + row.num_drafted);
    input.output = output;
  }
  input.allowed = *row.allowed;
  if (const auto token = NextOfClosing(item, row.num_drafted);
      token && (input.allowed.empty() || grammar::Contains(input.allowed, *token))) {
    input.forced = token;
  }
  SampleOf(row) = kernels::Sample(input, scratch);
}

}  // namespace aril

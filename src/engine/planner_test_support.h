// Sequences as the planner is shown them, and plans as its tests look at them.

#ifndef ARIL_ENGINE_PLANNER_TEST_SUPPORT_H_
#define ARIL_ENGINE_PLANNER_TEST_SUPPORT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/planner.h"

namespace aril {

inline constexpr AdapterId kA{1};
inline constexpr AdapterId kB{2};
inline constexpr AdapterId kC{3};

// Four tokens per page. Ids are also the order of arrival.
inline constexpr PlanLimits kLimits{
    .max_rows = 16, .max_running = 8, .pages = {.page_tokens = 4}, .headroom_tokens = 4};

inline PlanSequence Waiting(int64_t id, int64_t num_tokens, AdapterId adapter = kBaseModel) {
  return {.id = SequenceId(id), .adapters = MixOf(adapter), .num_tokens = num_tokens};
}

// With just the pages that its computed tokens need.
inline PlanSequence Running(int64_t id, int64_t num_tokens, int64_t num_computed,
                            AdapterId adapter = kBaseModel) {
  PlanSequence sequence = Waiting(id, num_tokens, adapter);
  sequence.running = true;
  sequence.num_computed = num_computed;
  sequence.num_pages = (num_computed + kLimits.pages.page_tokens - 1) / kLimits.pages.page_tokens;
  sequence.num_own_pages = sequence.num_pages;
  return sequence;
}

// `num_cached` of its pages are cached; `num_own` of them are used by nobody before it.
inline PlanSequence Cached(PlanSequence sequence, int64_t num_cached, int64_t num_own) {
  sequence.num_pages = num_cached;
  sequence.num_computed = num_cached * kLimits.pages.page_tokens;
  sequence.num_own_pages = num_own;
  return sequence;
}

// At its last token, so that it wants one row.
inline PlanSequence Decoding(int64_t id, int64_t num_tokens, AdapterId adapter = kBaseModel) {
  return Running(id, num_tokens, num_tokens - 1, adapter);
}

// And guesses what follows.
inline PlanSequence Drafting(int64_t id, int64_t num_tokens, int64_t num_drafted) {
  PlanSequence sequence = Decoding(id, num_tokens);
  sequence.num_drafted = num_drafted;
  return sequence;
}

template <typename Id>
std::vector<int64_t> Values(const std::vector<Id>& ids) {
  std::vector<int64_t> values;
  for (const Id id : ids) values.push_back(id.value());
  return values;
}

// Of the sequences whose adapters are loaded ahead.
inline std::vector<int64_t> Prefetches(const Plan& plan) {
  std::vector<int64_t> ids;
  for (const Plan::Prefetch& prefetch : plan.prefetch) ids.push_back(prefetch.id.value());
  return ids;
}

// (sequence, rows) in the order of the batch.
inline std::vector<std::pair<int64_t, int64_t>> Rows(const Plan& plan) {
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (const Plan::Item& item : plan.items) rows.emplace_back(item.id.value(), item.num_rows);
  return rows;
}

inline std::vector<int64_t> NewPages(const Plan& plan) {
  std::vector<int64_t> pages;
  for (const Plan::Item& item : plan.items) pages.push_back(item.new_pages);
  return pages;
}

}  // namespace aril

#endif  // ARIL_ENGINE_PLANNER_TEST_SUPPORT_H_

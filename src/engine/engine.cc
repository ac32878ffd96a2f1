#include "engine/engine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril {
namespace {

#ifdef NDEBUG
constexpr bool kDebug = false;
#else
constexpr bool kDebug = true;
#endif

PlanLimits LimitsOf(const EngineOptions& options, const kernels::KvLayout& layout) {
  return {.max_rows = options.max_num_batched_tokens,
          .max_running = options.max_num_seqs,
          .pages = layout.pages(),
          .max_draft_rows = options.drafts.max_rows};
}

// Whether the text is complete with this token, and nothing can follow it.
bool EndsFormat(int32_t token, grammar::TokenMatcher& matcher) {
  // An error, of which there is none as the token was allowed, would come with the next one.
  return matcher.Accept(token).ok() && matcher.HasEnded();
}

wire::TokenEvent EventOf(const Sequence& sequence) {
  return {.sequence = sequence.id(),
          .attempt = sequence.request.attempt,
          .index = static_cast<int32_t>(sequence.output.size()),
          .num_cached = static_cast<int32_t>(sequence.num_cached)};
}

}  // namespace

Engine::Engine(const EngineOptions& options, Model& model, std::unique_ptr<Arena> arena,
               const AdapterSet& adapters, kernels::CpuContext& context, const Clock& clock)
    : options_(options),
      model_(model),
      adapters_(adapters),
      clock_(clock),
      limits_(LimitsOf(options, model.layout())),
      arena_(std::move(arena)),
      pool_(options.num_pages,
            kDebug ? std::function<void(PageId)>([this](PageId id) { arena_->Poison(id); })
                   : nullptr),
      residency_(model.layout().dtype, pool_, *arena_, clock, options.run_aside,
                 options.max_adapter_pages),
      standing_pins_({.num_pages = options.num_pages,
                      .max_context_pages = limits_.pages.For(options.max_model_len),
                      .max_adapter_pages = options.max_adapter_pages,
                      .max_owner_pages = options.max_owner_pinned_pages,
                      .max_pinned_pages = options.max_pinned_pages}),
      prefix_cache_(pool_, limits_.pages),
      copy_pages_([this](auto from, auto to) { arena_->CopyPages(from, to); }),
      formats_(options.formats ? options.formats : std::make_shared<grammar::FormatCache>(nullptr)),
      executor_(model, *arena_, context, options.format_work) {}

Engine::~Engine() {
  if (under_way_) executor_.Collect();
}

void Engine::SetListener(const std::function<void()>& listener) {
  residency_.SetListener(listener);
  standing_pins_.SetListener(listener);
}

int64_t Engine::PagesFor(AdapterId adapter) const {
  const auto found = adapters_.Find(adapter);
  CHECK(found.ok());
  return residency_.PagesFor(*found);
}

void Engine::Add(AcceptedSequence accepted) {
  auto sequence = std::make_unique<Sequence>(std::move(accepted.request),
                                             std::move(accepted.adapters), std::move(accepted.room),
                                             std::move(accepted.format), next_arrival_++);
  CHECK(by_id_.emplace(sequence->id(), sequence.get()).second);
  const uint64_t arrival = sequence->arrival;
  has_priorities_ = sequence->request.priority != 0 || (has_priorities_ && !sequences_.empty());
  sequences_.emplace(arrival, std::move(sequence));
  if (has_priorities_) GoAhead(arrival);
  stalled_ = false;
}

void Engine::GoAhead(uint64_t arrival) {
  auto own = sequences_.find(arrival);
  for (auto ahead = own; ahead != sequences_.begin();) {
    --ahead;
    const wire::SequenceRequest& request = own->second->request;
    const Sequence& other = *ahead->second;
    // Who has started is before all others, or where rows are shared before those of its tenant.
    if (other.has_started && !options_.shares_rows) break;
    if (other.has_started || other.request.tenant != request.tenant) continue;
    if (other.request.priority >= request.priority) break;
    std::swap(own->second, ahead->second);
    std::swap(own->second->arrival, ahead->second->arrival);
    own = ahead;
  }
}

void Engine::Cancel(SequenceId id) {
  if (!by_id_.contains(id)) return;
  cancelled_.push_back(id);
  stalled_ = false;
}

std::vector<wire::TokenEvent> Engine::Step() {
  const TimePoint start = clock_.Now();
  std::vector<wire::TokenEvent> events;
  ClearStepStats();
  if (under_way_ && (under_way_->MustBeLast() || MayHaveDrafts())) {
    const StepUnderWay step = *std::exchange(under_way_, std::nullopt);
    Advance(step, executor_.Collect(), events);
  }
  ReportCancelled(events);
  TakeLoaded();
  ReportUnusable(events);
  const int64_t num_loaded = residency_.num_loaded();
  standing_pins_.Apply(residency_, pool_.available() - PagesToCome());
  MakeDrafts();
  const Plan plan = MakePlan(View(), limits_);
  std::optional<StepUnderWay> before = std::exchange(under_way_, std::nullopt);
  const bool has_rows = (!before || CanFollow(plan)) && Submit(Apply(plan));
  const bool did_nothing = !before && !has_rows && events.empty() && plan.admit.empty() &&
                           plan.evict.empty() && residency_.num_loaded() == num_loaded;
  stalled_ = did_nothing && residency_.num_loading() > 0;
  // Whoever was accepted can run: here, none ever would.
  if (kDebug) CHECK(!did_nothing || stalled_ || !HasSequences());
  if (before) Advance(*before, executor_.Collect(), events);
  if (under_way_ && !executor_.is_under_way()) {
    const StepUnderWay step = *std::exchange(under_way_, std::nullopt);
    Advance(step, executor_.Collect(), events);
  }
  if (kDebug) pool_.CheckConservation();
  stats_.step_time = clock_.Now() - start;
  return events;
}

void Engine::ReportCancelled(std::vector<wire::TokenEvent>& events) {
  for (const SequenceId id : std::exchange(cancelled_, {})) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) continue;
    wire::TokenEvent event = EventOf(*found->second);
    event.finish = wire::FinishReason::kCancelled;
    events.push_back(std::move(event));
    End(*found->second);
  }
}

void Engine::End(Sequence& sequence) {
  by_id_.erase(sequence.id());
  auto node = sequences_.extract(sequence.arrival);
  if (sequence.rows_under_way == 0) return;
  sequence.has_ended = true;
  under_way_->ended.push_back(std::move(node.mapped()));
}

bool Engine::CanFollow(const Plan& plan) {
  return plan.evict.empty() && std::ranges::all_of(plan.items, [this](const Plan::Item& item) {
           return executor_.CanFollow(MakeItem(Get(item.id), item.num_rows));
         });
}

StepItem Engine::MakeItem(Sequence& sequence, int64_t num_rows) {
  const int64_t first = sequence.next_num_computed();
  const int64_t num_output =
      static_cast<int64_t>(sequence.output.size()) + sequence.tokens_under_way;
  const int64_t num_left = sequence.next_num_tokens() - first;
  Draft draft = sequence.draft;
  draft.tokens.resize(static_cast<size_t>(std::max<int64_t>(0, num_rows - num_left)));
  return {
      .sequence = &sequence,
      .first_token = first,
      .num_rows = num_rows,
      .chooses_token = num_rows >= num_left && num_output < sequence.request.max_tokens,
      .pools = num_rows >= num_left && sequence.request.pooling != wire::Pooling::kNone,
      .draft = std::move(draft),
  };
}

bool Engine::Submit(StepRows rows) {
  auto& [items, waiting] = rows;
  if (items.empty()) {
    executor_.FindAllowed(waiting);
    return !waiting.empty();
  }
  const SubmittedStep step = executor_.Submit(items, waiting);
  stats_.num_segments = step.num_segments;
  stats_.num_adapters = step.num_adapters;
  for (const StepItem& item : items) {
    item.sequence->rows_under_way += item.num_rows;
    item.sequence->tokens_under_way += item.num_choices();
  }
  under_way_.emplace(StepUnderWay{.items = std::move(items)});
  return true;
}

bool Engine::IsReady(const Sequence& s) const {
  return std::ranges::all_of(s.request.adapters,
                             [this](const AdapterUse& use) { return residency_.IsReady(use.id); });
}

int64_t Engine::PagesToCome() const {
  int64_t pages = 0;
  for (const Sequence* const s : Running()) {
    pages += std::max<int64_t>(0, limits_.pages.For(s->next_num_tokens()) - s->num_pages());
  }
  return pages;
}

std::vector<int32_t> Engine::ReusableTokens(const Sequence& sequence) const {
  if (!caches_prefixes()) return {};
  return sequence.Tokens(0, sequence.first_logits_row());
}

void Engine::ClearStepStats() {
  stats_.num_rows = 0;
  stats_.num_prefill_rows = 0;
  stats_.num_generated = 0;
  stats_.num_segments = 0;
  stats_.num_adapters = 0;
  stats_.queue_times.clear();
  stats_.adapter_load_times.clear();
}

void Engine::TakeLoaded() {
  for (const Duration took : residency_.TakeLoaded()) stats_.adapter_load_times.push_back(took);
}

void Engine::ReportUnusable(std::vector<wire::TokenEvent>& events) {
  if (!residency_.HasErrors()) return;
  std::vector<Sequence*> unusable;
  for (const auto& [arrival, sequence] : sequences_) {
    const auto& uses = sequence->request.adapters;
    const auto has_error = [this](const AdapterUse& use) {
      return !residency_.ErrorOf(use.id).ok();
    };
    const auto found = std::ranges::find_if(uses, has_error);
    if (!sequence->running || found == uses.end()) continue;
    LogError(StrCat("an adapter cannot be used: ", Message(residency_.ErrorOf(found->id))));
    unusable.push_back(sequence.get());
  }
  for (Sequence* const sequence : unusable) {
    wire::TokenEvent event = EventOf(*sequence);
    event.finish = wire::FinishReason::kError;
    // What is wrong with our files, and where they are, is no business of clients.
    event.error = Internal(
        "an adapter of the request cannot be served: its files cannot be read, or are not those "
        "that were loaded; the server's log says why");
    events.push_back(std::move(event));
    End(*sequence);
  }
}

Engine::StepRows Engine::Apply(const Plan& plan) {
  for (const SequenceId id : plan.evict) Get(id).Evict();
  stats_.evictions += static_cast<int64_t>(plan.evict.size());
  Admit(plan.admit);
  StepRows rows;
  for (const Plan::Item& item : plan.items) {
    Sequence& sequence = Get(item.id);
    // Its rows and pages stay its own until the adapters are there.
    if (!IsReady(sequence)) continue;
    const StepItem step_item = MakeItem(sequence, item.num_rows);
    if (step_item.chooses_token && sequence.waits_for_format && !sequence.matcher->HasFound()) {
      rows.waiting.push_back(&sequence);
      continue;
    }
    TakePages(item.new_pages, sequence);
    rows.items.push_back(step_item);
    // Pages that others may read are not written.
    CHECK_LE(sequence.prefix.num_pages() * limits_.pages.page_tokens, step_item.first_token);
    if (!std::exchange(sequence.has_run, true)) {
      stats_.queue_times.push_back(clock_.Now() - sequence.request.arrival);
    }
    stats_.num_rows += static_cast<int32_t>(item.num_rows);
    if (item.prefill) stats_.num_prefill_rows += static_cast<int32_t>(item.num_rows);
  }
  for (const Plan::Prefetch& prefetch : plan.prefetch) {
    for (const Sequence::Adapter& adapter : Get(prefetch.id).adapters) {
      if (adapter.ref.id == prefetch.adapter) residency_.Prefetch(adapter.ref);
    }
  }
  return rows;
}

// Those of its state come first.
void Engine::TakePages(int64_t count, Sequence& sequence) {
  const int64_t of_state = limits_.pages.state_pages - std::ssize(sequence.state_pages);
  CHECK(pool_.Allocate(of_state, PageUse::kKv, sequence.state_pages));
  CHECK(pool_.Allocate(count - of_state, PageUse::kKv, sequence.pages));
}

void Engine::Admit(std::span<const SequenceId> ids) {
  // What is in the pool already is pinned before room is made for anything else.
  for (const SequenceId id : ids) Start(Get(id));
  for (const SequenceId id : ids) {
    Sequence& sequence = Get(id);
    sequence.state_pages = prefix_cache_.TakeState(sequence.prefix, copy_pages_);
  }
  for (const SequenceId id : ids) {
    for (Sequence::Adapter& adapter : Get(id).adapters) {
      if (adapter.pin.adapter() == nullptr) adapter.pin = residency_.Pin(adapter.ref);
    }
  }
  TakeLoaded();
}

void Engine::Start(Sequence& sequence) {
  sequence.running = true;
  for (Sequence::Adapter& adapter : sequence.adapters) {
    if (residency_.IsResident(adapter.ref.id)) adapter.pin = residency_.Pin(adapter.ref);
  }
  const std::vector<int32_t> reusable = ReusableTokens(sequence);
  sequence.prefix = prefix_cache_.Take(sequence.prefix_source, reusable, sequence.pages);
  sequence.num_computed = sequence.prefix.num_pages() * limits_.pages.page_tokens;
  sequence.num_in_state = sequence.num_computed;
  sequence.stop = StopOf(sequence.num_computed, sequence.prefix.num_alike());
  if (std::exchange(sequence.has_started, true)) return;
  sequence.num_cached = std::min(sequence.num_computed, sequence.num_prompt());
  stats_.prefix_queries += static_cast<int64_t>(reusable.size());
  stats_.prefix_hits += sequence.num_cached;
}

void Engine::Advance(const StepUnderWay& step, std::vector<ItemResult> results,
                     std::vector<wire::TokenEvent>& events) {
  ++stats_.step;
  for (size_t i = 0; i < step.items.size(); ++i) {
    const StepItem& item = step.items[i];
    item.sequence->rows_under_way -= item.num_rows;
    item.sequence->tokens_under_way -= item.num_choices();
    if (item.sequence->has_ended) continue;
    if (Advance(item, std::move(results[i]), events)) End(*item.sequence);
  }
}

bool Engine::Advance(const StepItem& item, ItemResult result,
                     std::vector<wire::TokenEvent>& events) {
  Sequence& sequence = *item.sequence;
  sequence.waits_for_format = result.waits_for_format;
  sequence.num_in_state = item.first_token + item.num_rows;
  // Of rows of a draft, those of right tokens follow.
  sequence.num_computed += item.num_rows - item.draft.size() - (result.waits_for_format ? 1 : 0);
  std::move(result.prompt_logprobs.begin(), result.prompt_logprobs.end(),
            std::back_inserter(sequence.prompt_logprobs));
  const size_t num_events = events.size();
  if (sequence.num_computed == sequence.num_tokens()) {
    TakeResult(item, std::move(result), events);
  }
  CachePages(sequence);
  if (item.draft.size() > 0) GiveBackPages(sequence);
  return events.size() > num_events && events.back().finish.has_value();
}

void Engine::TakeResult(const StepItem& item, ItemResult result,
                        std::vector<wire::TokenEvent>& events) {
  Sequence& sequence = *item.sequence;
  auto& samples = result.samples;
  const auto next_event = [&sequence] {
    wire::TokenEvent event = EventOf(sequence);
    event.prompt_logprobs = std::exchange(sequence.prompt_logprobs, {});
    return event;
  };
  if (samples.empty()) {
    wire::TokenEvent& end = events.emplace_back(next_event());
    end.finish = wire::FinishReason::kLength;  // max_tokens is 0: only the prompt was wanted
    end.pooled = std::move(result.pooled);
    end.label = std::move(result.label);
    return;
  }
  const auto draft = std::span(item.draft.tokens).first(samples.size() - 1);
  int64_t num_right = 0;
  bool one_was_wrong = false;
  for (size_t i = 0; i < samples.size(); ++i) {
    wire::TokenEvent event = next_event();
    if (samples[i].ok()) {
      AppendToken(sequence, *std::move(samples[i]), event);
      ++stats_.num_generated;
    } else {
      event.finish = wire::FinishReason::kError;
      event.error = samples[i].status();
    }
    const bool was_guessed = !event.finish && i < draft.size();
    const bool is_right = was_guessed && event.token == draft[i];
    one_was_wrong = was_guessed && !is_right;
    num_right += is_right ? 1 : 0;
    if (item.draft.is_predicted) {
      event.prediction_use = {
          .num_accepted = is_right ? 1 : 0,
          .num_rejected = one_was_wrong ? static_cast<int32_t>(draft.size() - i) : 0};
    }
    events.push_back(std::move(event));
    if (!is_right) break;
  }
  sequence.num_computed += num_right;
  CountDraft(sequence, item.draft, num_right, one_was_wrong);
}

// Two sequences may have filled equal pages side by side. Both go on with the first one's: by the
// arithmetic rule the bytes are the same.
void Engine::CachePages(Sequence& sequence) {
  if (!caches_prefixes()) return;
  const int64_t page_tokens = limits_.pages.page_tokens;
  const int64_t num_full = sequence.num_computed / page_tokens;
  for (int64_t i = sequence.prefix.num_pages(); i < num_full; ++i) {
    PageRef& page = sequence.pages[static_cast<size_t>(i)];
    PageRef own = page.Share();
    prefix_cache_.Extend(sequence.prefix, sequence.Tokens(i * page_tokens, page_tokens), page);
    // One that is in the index stays there for the rows under way, and may be idle behind them.
    const bool is_displaced = own.id() != page.id();
    if (is_displaced && sequence.rows_under_way > 0) under_way_->pages.push_back(std::move(own));
  }
  // A row that will be run again is in the state already.
  const bool is_behind = sequence.num_in_state == sequence.num_computed;
  if (is_behind && sequence.StopsAt(sequence.num_computed)) CacheState(sequence);
}

// Not into pages that the running sequences will want: it would have to go again at once.
void Engine::CacheState(const Sequence& sequence) {
  CHECK_EQ(sequence.prefix.num_pages() * limits_.pages.page_tokens, sequence.num_computed);
  CHECK_EQ(sequence.rows_under_way, 0);
  if (pool_.available() - PagesToCome() < limits_.pages.state_pages) return;
  prefix_cache_.KeepState(sequence.prefix, sequence.state_pages, copy_pages_);
}

// Where it parts from what was computed before: the next one that begins alike goes on from there.
int64_t Engine::StopOf(int64_t num_computed, int64_t num_alike_pages) const {
  const int64_t stop = num_alike_pages * limits_.pages.page_tokens;
  const int64_t min_tokens = std::max<int64_t>(1, options_.min_cached_state_tokens);
  return has_state() && stop - num_computed >= min_tokens ? stop : 0;
}

void Engine::AppendToken(Sequence& sequence, kernels::SampleResult sampled,
                         wire::TokenEvent& event) {
  const wire::SequenceRequest& request = sequence.request;
  sequence.output.push_back(sampled.token);
  if (sequence.reasoning) sequence.reasoning->Append(sampled.token);
  event.token = sampled.token;
  event.logprobs = std::move(sampled.logprobs);
  const auto length = static_cast<int32_t>(sequence.output.size());
  const auto& stops = request.stop_token_ids;
  if (length > request.min_tokens &&
      std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) {
    event.finish = wire::FinishReason::kStop;
    event.stop_token = sampled.token;
  } else if (sequence.matcher && EndsFormat(sampled.token, *sequence.matcher)) {
    event.finish = wire::FinishReason::kStop;
  } else if (length >= request.max_tokens) {
    event.finish = wire::FinishReason::kLength;
  }
}

wire::StepStats Engine::Stats() const {
  wire::StepStats stats = stats_;
  stats.pages_total = pool_.total();
  stats.pages_free = pool_.free();
  stats.pages_prefix = prefix_cache_.num_idle_pages();
  stats.pages_kv = num_kv_pages();
  stats.pages_adapter = pool_.used(PageUse::kAdapter);
  stats.pages_available = std::min(pool_.available() - standing_pins_.pages_waited_for(),
                                   options_.max_kv_pages - num_kv_pages()) -
                          PagesToCome();
  stats.page_tokens = limits_.pages.page_tokens;
  stats.page_bytes = arena_->page_bytes();
  stats.unused_adapter_bytes = residency_.unused_bytes();
  stats.adapter_loads = residency_.num_loads();
  stats.adapter_evictions = residency_.num_drops();
  std::map<AdapterId, wire::AdapterLoad> adapters;
  const auto count = [&](AdapterId adapter, bool running) {
    wire::AdapterLoad& load = adapters[adapter];
    load.adapter = adapter;
    ++(running ? load.num_running : load.num_waiting);
  };
  const int64_t token_bytes = arena_->page_bytes() / limits_.pages.page_tokens;
  for (const auto& [arrival, sequence] : sequences_) {
    const bool running = sequence->running;
    // Pages that sequences share are full.
    const auto slots = std::ssize(sequence->pages) * limits_.pages.page_tokens;
    if (running) stats.unused_kv_bytes += (slots - sequence->num_computed) * token_bytes;
    ++(running ? stats.num_running : stats.num_waiting);
    if (options_.lists_sequences) {
      stats.sequences.push_back({.sequence = sequence->id(),
                                 .is_running = running,
                                 .has_started = sequence->has_started,
                                 .num_tokens = static_cast<int32_t>(sequence->num_tokens())});
    }
    if (sequence->adapters.empty()) count(kBaseModel, running);
    for (const Sequence::Adapter& adapter : sequence->adapters) count(adapter.ref.id, running);
  }
  for (const auto& [id, load] : adapters) stats.adapters.push_back(load);
  return stats;
}

}  // namespace aril

#include "engine/engine.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
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
          .page_tokens = layout.page_tokens};
}

wire::TokenEvent EventOf(const Sequence& sequence) {
  return {.sequence = sequence.id(),
          .attempt = sequence.request.attempt,
          .index = static_cast<int32_t>(sequence.output.size())};
}

}  // namespace

Engine::Engine(const EngineOptions& options, Model& model, const AdapterSet& adapters,
               kernels::CpuContext& context, const Clock& clock)
    : options_(options),
      model_(model),
      adapters_(adapters),
      clock_(clock),
      limits_(LimitsOf(options, model.layout())),
      arena_(options.num_pages, model.layout().page_bytes()),
      pool_(
          options.num_pages,
          kDebug ? std::function<void(PageId)>([this](PageId id) { arena_.Poison(id); }) : nullptr),
      residency_(model.layout().dtype, pool_, arena_, context.threads()),
      executor_(model, arena_, context) {}

StatusOr<AcceptedSequence> Engine::Accept(wire::SequenceRequest request) const {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidArgument("the prompt has no tokens");
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= model_.spec().vocab_size) {
      return InvalidArgument(StrCat("token id ", token, " is outside the vocabulary of ",
                                    model_.spec().vocab_size, " tokens"));
    }
  }
  if (request.max_tokens < 0) return InvalidArgument("max_tokens is negative");
  ASSIGN_OR_RETURN(AdapterRef adapter, adapters_.Find(request.adapter));
  const int64_t tokens = prompt + request.max_tokens;
  if (tokens > options_.max_model_len) {
    return InvalidArgument(
        StrCat("This model's maximum context length is ", options_.max_model_len,
               " tokens. However, you requested ", tokens, " tokens (", prompt, " in the prompt, ",
               request.max_tokens,
               " in the completion). Please reduce the length of the prompt or the completion."));
  }
  const int64_t pages = CeilDiv(tokens, limits_.page_tokens) + residency_.PagesFor(adapter);
  if (pages > pool_.total()) {
    return InvalidArgument(StrCat("the sequence and its adapter need ", pages, " pages of ",
                                  arena_.page_bytes(), " bytes, but the whole pool has ",
                                  pool_.total(), "; raise --pool-bytes or shorten the request"));
  }
  return AcceptedSequence{std::move(request), std::move(adapter)};
}

int64_t Engine::PagesFor(AdapterId adapter) const {
  const auto found = adapters_.Find(adapter);
  CHECK(found.ok());
  return residency_.PagesFor(*found);
}

void Engine::Add(AcceptedSequence accepted) {
  const int64_t adapter_pages = residency_.PagesFor(accepted.adapter);
  auto sequence = std::make_unique<Sequence>(
      std::move(accepted.request), std::move(accepted.adapter), adapter_pages, next_arrival_++);
  CHECK(by_id_.emplace(sequence->id(), sequence.get()).second);
  const uint64_t arrival = sequence->arrival;
  sequences_.emplace(arrival, std::move(sequence));
}

void Engine::Cancel(SequenceId id) {
  if (by_id_.contains(id)) cancelled_.push_back(id);
}

std::vector<wire::TokenEvent> Engine::Step() {
  const TimePoint start = clock_.Now();
  std::vector<wire::TokenEvent> events;
  ReportCancelled(events);
  const Plan plan = MakePlan(View(), limits_);
  const std::vector<StepItem> items = Apply(plan);
  executor_.Submit(items);
  Advance(items, executor_.Collect(), events);
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
    const uint64_t arrival = found->second->arrival;
    by_id_.erase(found);
    sequences_.erase(arrival);
  }
}

PlanView Engine::View() const {
  PlanView view{.free_pages = pool_.free()};
  std::set<AdapterId> seen;
  const auto add_adapter = [&](AdapterId id, int64_t num_pages) {
    if (id != kBaseModel && seen.insert(id).second) {
      view.adapters.push_back({id, num_pages, residency_.IsResident(id)});
    }
  };
  for (const auto& [id, num_pages] : residency_.Idle()) add_adapter(id, num_pages);
  // No more waiting sequences than could start: the queue may be long.
  int64_t waiting_left = options_.max_num_seqs;
  for (const auto& [arrival, sequence] : sequences_) {
    const Sequence& s = *sequence;
    if (!s.running && waiting_left-- <= 0) continue;
    view.sequences.push_back({.id = s.id(),
                              .adapter = s.request.adapter,
                              .arrival = arrival,
                              .running = s.running,
                              .num_tokens = s.num_tokens(),
                              .num_computed = s.num_computed,
                              .num_pages = static_cast<int64_t>(s.pages.size())});
    add_adapter(s.request.adapter, s.adapter_pages);
  }
  return view;
}

std::vector<StepItem> Engine::Apply(const Plan& plan) {
  stats_.num_rows = 0;
  stats_.num_prefill_rows = 0;
  stats_.num_generated = 0;
  stats_.queue_times.clear();
  stats_.adapter_load_times.clear();
  for (const SequenceId id : plan.evict) Get(id).Evict();
  stats_.evictions += static_cast<int64_t>(plan.evict.size());
  for (const AdapterId id : plan.drop) residency_.Drop(id);
  for (const SequenceId id : plan.admit) {
    Sequence& sequence = Get(id);
    const TimePoint now = clock_.Now();
    const bool resident = residency_.IsResident(sequence.request.adapter);
    sequence.adapter = residency_.Pin(sequence.adapter_ref);
    if (!resident) stats_.adapter_load_times.push_back(clock_.Now() - now);
    if (!sequence.has_started) stats_.queue_times.push_back(now - sequence.request.arrival);
    sequence.has_started = true;
    sequence.running = true;
  }
  std::vector<StepItem> items;
  for (const Plan::Item& item : plan.items) {
    Sequence& sequence = Get(item.id);
    CHECK(pool_.Allocate(item.new_pages, PageUse::kKv, sequence.pages));
    items.push_back({&sequence, item.num_rows});
    stats_.num_rows += static_cast<int32_t>(item.num_rows);
    if (item.prefill) stats_.num_prefill_rows += static_cast<int32_t>(item.num_rows);
  }
  return items;
}

void Engine::Advance(std::span<const StepItem> items, StepResult result,
                     std::vector<wire::TokenEvent>& events) {
  ++stats_.step;
  stats_.num_segments = result.num_segments;
  stats_.num_adapters = result.num_adapters;
  for (size_t i = 0; i < items.size(); ++i) {
    Sequence& sequence = Get(items[i].sequence->id());
    wire::TokenEvent event = Advance(sequence, items[i].num_rows, std::move(result.items[i]));
    const bool finished = event.finish.has_value();
    if (event.token.has_value()) ++stats_.num_generated;
    if (event.token.has_value() || finished) events.push_back(std::move(event));
    if (!finished) continue;
    const uint64_t arrival = sequence.arrival;
    by_id_.erase(sequence.id());
    sequences_.erase(arrival);
  }
}

wire::TokenEvent Engine::Advance(Sequence& sequence, int64_t num_rows, ItemResult result) {
  wire::TokenEvent event = EventOf(sequence);
  sequence.num_computed += num_rows;
  std::move(result.prompt_logprobs.begin(), result.prompt_logprobs.end(),
            std::back_inserter(sequence.prompt_logprobs));
  if (sequence.num_computed < sequence.num_tokens()) return event;

  event.prompt_logprobs = std::exchange(sequence.prompt_logprobs, {});
  if (!result.sample.has_value()) {
    event.finish = wire::FinishReason::kLength;  // max_tokens is 0: only the prompt was wanted
  } else if (!result.sample->ok()) {
    event.finish = wire::FinishReason::kError;
    event.error = result.sample->status();
  } else {
    AppendToken(sequence, std::move(**result.sample), event);
  }
  return event;
}

void Engine::AppendToken(Sequence& sequence, kernels::SampleResult sampled,
                         wire::TokenEvent& event) {
  const wire::SequenceRequest& request = sequence.request;
  sequence.output.push_back(sampled.token);
  event.token = sampled.token;
  event.logprobs = std::move(sampled.logprobs);
  const auto length = static_cast<int32_t>(sequence.output.size());
  const auto& stops = request.stop_token_ids;
  if (length > request.min_tokens &&
      std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) {
    event.finish = wire::FinishReason::kStop;
    event.stop_token = sampled.token;
  } else if (length >= request.max_tokens) {
    event.finish = wire::FinishReason::kLength;
  }
}

wire::StepStats Engine::Stats() const {
  wire::StepStats stats = stats_;
  stats.pages_total = pool_.total();
  stats.pages_free = pool_.free();
  stats.pages_kv = pool_.used(PageUse::kKv);
  stats.pages_adapter = pool_.used(PageUse::kAdapter);
  stats.page_tokens = limits_.page_tokens;
  stats.page_bytes = arena_.page_bytes();
  stats.adapter_loads = residency_.num_loads();
  stats.adapter_evictions = residency_.num_drops();
  std::map<AdapterId, wire::AdapterLoad> adapters;
  for (const auto& [arrival, sequence] : sequences_) {
    wire::AdapterLoad& load = adapters[sequence->request.adapter];
    load.adapter = sequence->request.adapter;
    ++(sequence->running ? stats.num_running : stats.num_waiting);
    ++(sequence->running ? load.num_running : load.num_waiting);
  }
  for (const auto& [id, load] : adapters) stats.adapters.push_back(load);
  return stats;
}

}  // namespace aril

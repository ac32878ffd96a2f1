#include "simulate/runner_model.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/checked.h"
#include "base/mix64.h"
#include "base/strings.h"

namespace aril::simulate {

int32_t ModelToken(SequenceId sequence, int64_t num_tokens) {
  return static_cast<int32_t>(
      Mix64(static_cast<uint64_t>(sequence.value()), static_cast<uint64_t>(num_tokens)) >> 33);
}

RunnerModel::RunnerModel(const RunnerModelOptions& options)
    : options_(options), free_pages_(options.pages_total) {}

int64_t RunnerModel::PagesFor(int64_t tokens) const {
  return CeilDiv(tokens, options_.page_tokens);
}

void RunnerModel::Add(const delivery::StartAttempt& start) {
  const SequenceId id = start.request.sequence;
  const auto [it, is_new] = sequences_.try_emplace(id);
  CHECK(is_new);
  Sequence& sequence = it->second;
  sequence.start = start;
  sequence.place = {start.request.arrival, id};
  sequence.num_tokens = static_cast<int64_t>(start.request.prompt.size() + start.output.size());
  if (options_.caches_prefixes) sequence.marks = MarkPages(start.request);
  waiting_.emplace(sequence.place, &sequence);
}

// Full pages: the last one is computed, for its token.
std::vector<uint64_t> RunnerModel::MarkPages(const wire::SequenceRequest& request) const {
  std::vector<uint64_t> marks;
  uint64_t mark = std::hash<std::string>()(request.tenant);
  for (const AdapterUse& use : request.adapters) {
    mark = Mix64(mark, static_cast<uint64_t>(use.id.value()));
  }
  const auto page = static_cast<size_t>(options_.page_tokens);
  for (size_t i = 0; i + 1 < request.prompt.size(); ++i) {
    mark = Mix64(mark, static_cast<uint64_t>(request.prompt[i]));
    if ((i + 1) % page == 0) marks.push_back(mark);
  }
  return marks;
}

size_t RunnerModel::CountCached(const Sequence& sequence) const {
  size_t count = 0;
  while (count < sequence.marks.size() && cached_.contains(sequence.marks[count])) ++count;
  return count;
}

// Of those: what others use takes no more of what is free.
int64_t RunnerModel::CountInUse(const Sequence& sequence, size_t num_cached) const {
  return std::count_if(sequence.marks.begin(),
                       sequence.marks.begin() + static_cast<std::ptrdiff_t>(num_cached),
                       [this](uint64_t mark) { return cached_.at(mark).num_users > 0; });
}

void RunnerModel::UseCached(uint64_t mark) {
  CachedPage& page = cached_.at(mark);
  if (page.num_users == 0) {
    idle_cached_.erase(page.last_used);
    --idle_pages_;
  }
  ++page.num_users;
}

void RunnerModel::TakeCached(Sequence& sequence, size_t num_cached) {
  for (size_t i = 0; i < num_cached; ++i) UseCached(sequence.marks[i]);
  sequence.num_shared = num_cached;
  sequence.num_pages = static_cast<int64_t>(num_cached);
  sequence.num_computed = sequence.num_pages * options_.page_tokens;
  if (!sequence.was_evicted) num_cached_ += sequence.num_computed;
}

// What has been computed. Of two that compute the same, one keeps its page.
void RunnerModel::Share(Sequence& sequence) {
  const auto num_full = static_cast<size_t>(sequence.num_computed / options_.page_tokens);
  for (size_t& i = sequence.num_shared; i < std::min(num_full, sequence.marks.size()); ++i) {
    const auto [it, is_new] = cached_.try_emplace(sequence.marks[i]);
    if (is_new) {
      it->second.num_users = 1;
    } else {
      UseCached(sequence.marks[i]);
      ++free_pages_;
    }
  }
}

// The first page is used last: the ends of prompts are dropped first.
void RunnerModel::Unshare(Sequence& sequence) {
  while (sequence.num_shared > 0) {
    const uint64_t mark = sequence.marks[--sequence.num_shared];
    CachedPage& page = cached_.at(mark);
    if (--page.num_users > 0) continue;
    page.last_used = ++num_uses_;
    idle_cached_.emplace(page.last_used, mark);
    ++idle_pages_;
  }
}

void RunnerModel::Remove(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  Sequence& sequence = found->second;
  if (sequence.is_running) {
    Stop(sequence);
    running_.erase(sequence.place);
  }
  waiting_.erase(sequence.place);
  sequences_.erase(found);
}

// Into pages that are available.
RunnerModel::Adapter& RunnerModel::Load(AdapterId id, int64_t pages, TimePoint now) {
  CHECK(Take(pages));
  Adapter& adapter = adapters_[id];
  adapter.pages = pages;
  const Duration load = options_.steps.Load(pages * options_.page_bytes);
  adapter.ready_at = now + load * load_slowness_;
  adapter.last_used = ++num_uses_;
  return adapter;
}

bool RunnerModel::LoadAhead(AdapterId id, int64_t pages, TimePoint now) {
  constexpr int64_t kMaxLoadsAhead = 2;
  if (id == kBaseModel || adapters_.contains(id)) return false;
  const int64_t under_way = std::ranges::count_if(adapters_, [now](const auto& entry) {
    return entry.second.num_users == 0 && entry.second.ready_at > now;
  });
  if (under_way >= kMaxLoadsAhead || free_pages_ - Promised() < pages) return false;
  Load(id, pages, now);
  idle_pages_ += pages;
  return true;
}

void RunnerModel::Use(AdapterId id, int64_t pages, TimePoint now) {
  if (id == kBaseModel) return;
  const auto found = adapters_.find(id);
  Adapter& adapter = found == adapters_.end() ? Load(id, pages, now) : found->second;
  if (found != adapters_.end() && adapter.num_users == 0) idle_pages_ -= adapter.pages;
  ++adapter.num_users;
  adapter.last_used = ++num_uses_;
}

void RunnerModel::Unuse(AdapterId id) {
  if (id == kBaseModel) return;
  const auto found = adapters_.find(id);
  if (found == adapters_.end()) return;  // dropped under its users: a planted bug
  if (--found->second.num_users == 0) idle_pages_ += found->second.pages;
}

// Idle adapters and cached pages, the least recently used first, until so many pages are free.
void RunnerModel::DropIdle(int64_t pages) {
  while (free_pages_ < pages) {
    const bool has_cached = !idle_cached_.empty();
    if (DropIdleAdapter(has_cached ? idle_cached_.begin()->first : num_uses_ + 1)) continue;
    if (!has_cached) return;
    cached_.erase(idle_cached_.begin()->second);
    idle_cached_.erase(idle_cached_.begin());
    --idle_pages_;
    ++free_pages_;
  }
}

// The least recently used, if that was before this.
bool RunnerModel::DropIdleAdapter(int64_t before) {
  auto victim = adapters_.end();
  for (auto it = adapters_.begin(); it != adapters_.end(); ++it) {
    const bool may_go =
        it->second.num_users == 0 || options_.bug == PlantedBug::kAdapterInUseDropped;
    if (may_go && it->second.last_used < before) {
      victim = it;
      before = it->second.last_used;
    }
  }
  if (victim == adapters_.end()) return false;
  if (victim->second.num_users == 0) idle_pages_ -= victim->second.pages;
  free_pages_ += victim->second.pages;
  adapters_.erase(victim);
  return true;
}

bool RunnerModel::Take(int64_t pages) {
  DropIdle(pages);
  if (free_pages_ < pages) return false;
  free_pages_ -= pages;
  return true;
}

bool RunnerModel::TakePages(Sequence& sequence, int64_t pages) {
  if (!Take(pages)) return false;
  sequence.num_pages += pages;
  return true;
}

void RunnerModel::Stop(Sequence& sequence) {
  const bool leaks = options_.bug == PlantedBug::kPageLeak && sequence.num_pages > 1;
  free_pages_ += sequence.num_pages - static_cast<int64_t>(sequence.num_shared) - (leaks ? 1 : 0);
  Unshare(sequence);
  sequence.num_pages = 0;
  sequence.num_computed = 0;
  sequence.rows = 0;
  sequence.is_running = false;
  --num_running_;
  Unuse(sequence.adapter());
}

void RunnerModel::Evict(Sequence& sequence) {
  if (!running_.empty() && running_.rbegin()->second != &sequence && violation_.empty()) {
    violation_ = StrCat("sequence ", sequence.start.request.sequence,
                        " was evicted, and newer ones were not");
  }
  if (options_.bug == PlantedBug::kPageFreedTwice) free_pages_ += sequence.num_pages;
  Stop(sequence);
  sequence.was_evicted = true;
  running_.erase(sequence.place);
  waiting_.emplace(sequence.place, &sequence);
  ++num_evictions_;
}

RunnerModel::Sequence& RunnerModel::Victim() {
  const bool oldest = options_.bug == PlantedBug::kEvictOldest;
  return oldest ? *running_.begin()->second : *running_.rbegin()->second;
}

bool RunnerModel::IsReady(const Sequence& sequence, TimePoint now) const {
  const auto found = adapters_.find(sequence.adapter());
  return found == adapters_.end() || found->second.ready_at <= now;
}

// Pages that running sequences will still take for the tokens that they have.
int64_t RunnerModel::Promised() const {
  int64_t promised = 0;
  for (const auto& [place, sequence] : running_) {
    promised += PagesFor(sequence->num_tokens) - sequence->num_pages;
  }
  return promised;
}

// Each takes, if its adapter is there, what it can use of `rows`.
void RunnerModel::Admit(int64_t rows, TimePoint now) {
  int64_t promised = Promised();
  while (!waiting_.empty() && num_running_ < options_.max_running) {
    Sequence& sequence = *waiting_.begin()->second;
    const auto adapter = adapters_.find(sequence.adapter());
    const bool is_resident = adapter != adapters_.end();
    const bool is_used = is_resident && adapter->second.num_users > 0;
    const int64_t adapter_pages =
        sequence.adapter() == kBaseModel ? 0 : sequence.start.adapter_pages;
    const size_t num_cached = CountCached(sequence);
    const int64_t need = PagesFor(sequence.num_tokens) - CountInUse(sequence, num_cached) +
                         (is_used ? 0 : adapter_pages);
    if (free_pages_ + idle_pages_ - promised < need + num_running_) return;
    waiting_.erase(waiting_.begin());
    TakeCached(sequence, num_cached);
    Use(sequence.adapter(), adapter_pages, now);
    sequence.is_running = true;
    running_.emplace(sequence.place, &sequence);
    ++num_running_;
    if (IsReady(sequence, now)) {
      sequence.rows = std::min(sequence.num_tokens - sequence.num_computed, rows);
      rows -= sequence.rows;
      const int64_t pages = PagesFor(sequence.num_computed + sequence.rows) - sequence.num_pages;
      CHECK(TakePages(sequence, pages));
    }
    promised += PagesFor(sequence.num_tokens) - sequence.num_pages;
  }
}

std::optional<Duration> RunnerModel::BeginStep(TimePoint now) {
  planned_at_ = now;
  // Decodes, then what is left of the rows to prefills, the oldest first.
  int64_t rows_left = options_.max_rows;
  for (const bool prefills : {false, true}) {
    for (const auto& [place, sequence] : running_) {
      const int64_t remaining = sequence->num_tokens - sequence->num_computed;
      if (prefills != (remaining > 1)) continue;
      sequence->rows = IsReady(*sequence, now) ? std::min(remaining, rows_left) : 0;
      rows_left -= sequence->rows;
    }
  }
  bool has_evicted = false;
  for (auto it = running_.begin(); it != running_.end();) {
    Sequence& sequence = *it->second;
    const int64_t need = PagesFor(sequence.num_computed + sequence.rows) - sequence.num_pages;
    if (sequence.rows > 0 && need > 0 && !TakePages(sequence, need)) {
      Evict(Victim());
      has_evicted = true;
      it = running_.lower_bound(sequence.place);
      continue;
    }
    ++it;
  }
  // Who has just been evicted would only come back to be evicted again.
  if (!has_evicted) Admit(rows_left, now);
  StepWork work;
  last_batch_ = 0;
  std::vector<AdapterId> used;
  for (const auto& [place, sequence] : running_) {
    if (sequence->rows == 0) continue;
    ++last_batch_;
    if (sequence->rows > 1) {
      work.prefill_tokens += sequence->rows;
    } else {
      ++work.decodes;
      work.context_tokens += sequence->num_tokens;
    }
    if (sequence->adapter() != kBaseModel) used.push_back(sequence->adapter());
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (const AdapterId id : used) {
    const auto found = adapters_.find(id);
    if (found != adapters_.end()) work.adapter_bytes += found->second.pages * options_.page_bytes;
  }
  if (last_batch_ == 0) return std::nullopt;
  return options_.steps.Step(work);
}

std::optional<TimePoint> RunnerModel::next_ready() const {
  std::optional<TimePoint> next;
  for (const auto& [place, sequence] : running_) {
    const auto found = adapters_.find(sequence->adapter());
    if (found == adapters_.end()) continue;
    if (found->second.ready_at > planned_at_ && (!next || found->second.ready_at < *next)) {
      next = found->second.ready_at;
    }
  }
  return next;
}

std::vector<wire::TokenEvent> RunnerModel::EndStep(TimePoint) {
  std::vector<wire::TokenEvent> events;
  std::vector<SequenceId> ended;
  for (const auto& [place, pointer] : running_) {
    Sequence& sequence = *pointer;
    if (sequence.rows == 0) continue;
    sequence.num_computed += std::exchange(sequence.rows, 0);
    Share(sequence);
    if (sequence.num_computed < sequence.num_tokens) continue;
    const wire::SequenceRequest& request = sequence.start.request;
    const bool is_resumed = !sequence.start.output.empty() || sequence.was_evicted;
    const int64_t before = sequence.num_tokens - static_cast<int64_t>(request.prompt.size());
    wire::TokenEvent event;
    event.sequence = request.sequence;
    event.attempt = request.attempt;
    event.index = static_cast<int32_t>(before);
    if (options_.bug == PlantedBug::kOffByOneIndex && is_resumed) ++event.index;
    event.token = ModelToken(request.sequence, sequence.num_tokens);
    ++sequence.num_tokens;
    ++sequence.num_generated;
    const int64_t counted =
        options_.bug == PlantedBug::kTokensRestart ? sequence.num_generated : before + 1;
    if (counted >= request.max_tokens) {
      if (options_.bug != PlantedBug::kFinishForgotten) event.finish = wire::FinishReason::kLength;
      ended.push_back(request.sequence);
    }
    events.push_back(std::move(event));
  }
  for (const SequenceId id : ended) Remove(id);
  return events;
}

wire::RunnerReport RunnerModel::Report() const {
  wire::RunnerReport report;
  report.available_pages = free_pages_ + idle_pages_ - Promised();
  for (const ByPlace* sequences : {&running_, &waiting_}) {
    for (const auto& [place, sequence] : *sequences) {
      const wire::SequenceRequest& request = sequence->start.request;
      wire::RunnerSequence entry;
      entry.sequence = request.sequence;
      entry.gateway = sequence->start.gateway;
      entry.attempt = request.attempt;
      using State = wire::RunnerSequenceState;
      entry.state = sequence->is_running    ? State::kRunning
                    : sequence->was_evicted ? State::kEvicted
                                            : State::kPending;
      // What waits has been promised its pages, too.
      if (entry.state == State::kPending) report.available_pages -= PagesFor(sequence->num_tokens);
      entry.adapter = sequence->adapter();
      entry.adapter_pages = sequence->start.adapter_pages;
      entry.num_tokens = static_cast<int32_t>(sequence->num_tokens);
      entry.num_generated = sequence->num_generated;
      entry.priority = request.priority;
      entry.arrival = request.arrival;
      report.sequences.push_back(entry);
    }
  }
  return report;
}

std::string RunnerModel::Audit() const {
  if (!violation_.empty()) return violation_;
  int64_t used = 0, idle = 0;
  for (const auto& [place, sequence] : running_) {
    used += sequence->num_pages - static_cast<int64_t>(sequence->num_shared);
    if (sequence->adapter() != kBaseModel && !adapters_.contains(sequence->adapter())) {
      return StrCat("sequence ", place.second, " runs without its adapter");
    }
  }
  for (const auto& [id, adapter] : adapters_) {
    used += adapter.pages;
    if (adapter.num_users == 0) idle += adapter.pages;
  }
  used += std::ssize(cached_);
  idle += std::ssize(idle_cached_);
  if (free_pages_ + used != options_.pages_total || idle != idle_pages_ || free_pages_ < 0) {
    return StrCat("pages are not conserved: ", free_pages_, " free and ", used, " used of ",
                  options_.pages_total);
  }
  return "";
}

}  // namespace aril::simulate

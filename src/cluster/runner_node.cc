#include "cluster/runner_node.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril::cluster {

using delivery::kFirstSharedAdapter;
using delivery::SharedAdapter;

namespace {

delivery::ReleaseAttempt AttemptOf(const delivery::StartAttempt& start) {
  return {start.request.sequence, start.request.attempt};
}

// Logprobs of one event, alternatives included: about 12 bytes each in a frame, of which 64 MiB are
// the limit.
constexpr size_t kMaxLogprobs = size_t{2} << 20;

// What is loaded at a time for attempts that may come. A source that stalls holds a thread of the
// loader for as long: fewer than it has.
constexpr int64_t kMaxLoadsAhead = 2;

size_t CountLogprobs(const wire::TokenEvent& event) {
  size_t count = 0;
  for (const wire::Logprobs& logprobs : event.prompt_logprobs) count += 1 + logprobs.top.size();
  return count;
}

}  // namespace

RunnerNode::RunnerNode(RunnerNodeOptions options, Links& links, wire::SequencePort& engine,
                       SharedAdapterLoader* shared)
    : options_(std::move(options)),
      links_(links),
      engine_(engine),
      shared_(shared),
      end_(options_.max_live),
      scheduler_links_(links, options_.redial_after),
      pages_available_(options_.hello.runner.pages_total) {
  for (const std::string& address : options_.schedulers) scheduler_links_.Add(address);
}

Hello RunnerNode::OwnHello() const {
  Hello hello = options_.hello;
  hello.epoch = std::max(Epoch(0), end_.epoch());
  return hello;
}

void RunnerNode::Leave(TimePoint now) {
  is_leaving_ = true;
  end_.SetDraining(true);
  if (leader_) links_.Send(*leader_, RunnerLeaving{});
  Report(true, now);
}

Status RunnerNode::Readiness() const {
  if (is_leaving_) return Unavailable("The runner is shutting down.");
  if (!leader_) return Unavailable("The runner has no scheduler.");
  return OkStatus();
}

void RunnerNode::OnAccepted(LinkId link, TimePoint now) { gateways_[link] = {now, std::nullopt}; }

void RunnerNode::OnFrame(LinkId link, Frame frame, TimePoint now) {
  std::visit([&](auto& body) { Handle(link, body, now); }, frame);
}

template <typename Unexpected>
void RunnerNode::Handle(LinkId link, const Unexpected& body, TimePoint now) {
  Refuse(link, InvalidArgument(StrCat("a ", NameOf(Frame(body)), " is not for a runner")), now);
}

void RunnerNode::Refuse(LinkId link, const Status& why, TimePoint now) {
  LogWarning(StrCat("a link is refused: ", Message(why)));
  links_.Close(link, why);
  OnBroken(link, why, now);
}

Status RunnerNode::CheckGateway(const Hello& hello) const {
  RETURN_IF_ERROR(CheckPeer(options_.hello, hello, Role::kGateway));
  for (const auto& [link, gateway] : gateways_) {
    if (gateway.id != GatewayId(hello.id)) continue;
    return FailedPrecondition(StrCat("gateway ", hello.id, " is connected already"));
  }
  return OkStatus();
}

void RunnerNode::Handle(LinkId link, const Hello& hello, TimePoint now) {
  if (scheduler_links_.Find(link) != nullptr) {
    const Status status = CheckPeer(options_.hello, hello, Role::kScheduler);
    if (!status.ok()) return Refuse(link, status, now);
    return scheduler_links_.OnHello(link);
  }
  const auto gateway = gateways_.find(link);
  if (gateway == gateways_.end()) return;
  if (const Status status = CheckGateway(hello); !status.ok()) return Refuse(link, status, now);
  gateway->second.id = GatewayId(hello.id);
  links_.Send(link, OwnHello());
}

void RunnerNode::Handle(LinkId link, const Welcome& welcome, TimePoint now) {
  if (scheduler_links_.Find(link) == nullptr || !end_.OnEpoch(welcome.epoch)) return;
  leader_ = link;
  refused_.erase(*scheduler_links_.Find(link));
  LogInfo(StrCat("the scheduler at ", *scheduler_links_.Find(link), " leads, under epoch ",
                 welcome.epoch));
  if (is_leaving_) links_.Send(link, RunnerLeaving{});
  Report(true, now);
}

void RunnerNode::Handle(LinkId link, delivery::StartAttempt& start, TimePoint now) {
  const auto gateway = gateways_.find(link);
  if (gateway == gateways_.end()) return;
  const bool is_its_own =
      gateway->second.id == start.gateway && GatewayOf(start.request.sequence) == start.gateway;
  if (!is_its_own) {
    return Refuse(link, InvalidArgument("an attempt of another gateway's, or before Hello"), now);
  }
  const delivery::RunnerEnd::StartResult result = end_.OnStart(start, link);
  for (const delivery::ReleaseAttempt& old : result.superseded) Drop(old);
  if (result.verdict == delivery::StartVerdict::kAccepted) {
    Begin(start, link);
    return Report(false, now);
  }
  // Of an attempt that runs, tokens come; a later one is its gateway's business.
  if (result.verdict == delivery::StartVerdict::kStaleAttempt) return;
  links_.Send(link, delivery::AttemptRefused{start.request.sequence, start.request.attempt});
}

void RunnerNode::Begin(delivery::StartAttempt& start, LinkId link) {
  const delivery::ReleaseAttempt attempt = AttemptOf(start);
  const auto num_output = static_cast<int32_t>(start.output.size());
  Loading loading = {.start = {}, .link = link, .ready = {}};
  std::vector<delivery::SharedAdapter> missing;
  for (const AdapterUse& use : start.request.adapters) {
    if (use.id < kFirstSharedAdapter) continue;
    const auto shared = std::ranges::find(start.shared, use.id, &SharedAdapter::adapter);
    if (shared == start.shared.end()) {
      return Fail(attempt, num_output, link,
                  InvalidArgument(StrCat("nothing is said of adapter ", use.id)));
    }
    if (shared_ == nullptr) {
      return Fail(attempt, num_output, link,
                  Unavailable("the runner has no source of adapters: start it with --adapter-root "
                              "or --adapter-origin, as the gateways"));
    }
    if (auto ready = shared_->Find(shared->digest)) {
      loading.ready.emplace(use.id, *std::move(ready));
    } else {
      missing.push_back(*shared);
    }
  }
  if (missing.empty()) return Run(start, link, loading.ready);
  const std::string tenant = start.request.tenant;
  loading.start = std::move(start);
  loading_[attempt.sequence] = std::move(loading);
  for (const SharedAdapter& shared : missing) {
    const auto [load, is_new] = loads_.try_emplace({tenant, shared});
    load->second.push_back(attempt);
    if (is_new) Begin(load->first);
  }
}

void RunnerNode::Begin(const Load& load) {
  shared_->Load(load.shared, load.tenant,
                [this, load](const auto& loaded, TimePoint now) { OnLoaded(load, loaded, now); });
}

// Nobody waits for them yet.
void RunnerNode::Handle(LinkId link, const LoadAdapters& load, TimePoint) {
  const auto gateway = gateways_.find(link);
  if (gateway == gateways_.end() || !gateway->second.id || shared_ == nullptr || is_leaving_) {
    return;
  }
  for (const SharedAdapter& shared : load.shared) {
    const auto num_ahead =
        std::ranges::count_if(loads_, [](const auto& entry) { return entry.second.empty(); });
    if (num_ahead >= kMaxLoadsAhead || shared_->Find(shared.digest)) continue;
    const auto [entry, is_new] = loads_.try_emplace({load.tenant, shared});
    if (is_new) Begin(entry->first);
  }
}

void RunnerNode::OnLoaded(const Load& load, const StatusOr<SharedAdapterLoader::Ready>& loaded,
                          TimePoint now) {
  const std::string& digest = load.shared.digest;
  const auto waiting = loads_.extract(load);
  if (!loaded.ok()) {
    LogWarning(StrCat("adapter ", digest, " cannot be loaded: ", Message(loaded.status())));
  }
  for (const delivery::ReleaseAttempt& attempt : waiting.mapped()) {
    const auto found = loading_.find(attempt.sequence);
    if (found == loading_.end() || found->second.start.request.attempt != attempt.attempt) continue;
    Loading& loading = found->second;
    const delivery::StartAttempt& start = loading.start;
    if (loaded.ok()) {
      for (const SharedAdapter& shared : start.shared) {
        if (shared.digest == digest) loading.ready.emplace(shared.adapter, *loaded);
      }
      const bool is_ready = std::ranges::all_of(start.request.adapters, [&](const auto& use) {
        return use.id < kFirstSharedAdapter || loading.ready.contains(use.id);
      });
      if (!is_ready) continue;
    }
    Loading begun = std::move(loading);
    loading_.erase(found);
    if (loaded.ok()) {
      Run(begun.start, begun.link, begun.ready);
    } else {
      const StatusCode code = loaded.status().code();
      const bool may_succeed_elsewhere =
          code == StatusCode::kUnavailable || code == StatusCode::kResourceExhausted;
      const Status why =
          Unavailable(StrCat("adapter ", digest, " cannot be loaded: ", Message(loaded.status())));
      if (may_succeed_elsewhere) {
        Decline(attempt, begun.link, why);
      } else {
        Fail(attempt, static_cast<int32_t>(begun.start.output.size()), begun.link, why);
      }
    }
  }
  Report(false, now);
}

void RunnerNode::Run(delivery::StartAttempt& start, LinkId link, const ReadyAdapters& ready) {
  wire::SequenceRequest& request = start.request;
  const delivery::ReleaseAttempt attempt = AttemptOf(start);
  const SequenceId engine_id(next_engine_id_++);
  const auto num_output = static_cast<int32_t>(start.output.size());
  const auto num_tokens = static_cast<int32_t>(request.prompt.size()) + num_output;
  Running running = {.sequence = attempt.sequence,
                     .attempt = attempt.attempt,
                     .gateway = start.gateway,
                     .link = link,
                     .adapter = request.adapters.empty() ? kBaseModel : request.adapters.front().id,
                     .adapter_pages = PagesFor(request.adapters, ready),
                     .num_at_start = num_tokens,
                     .state = {.sequence = engine_id, .num_tokens = num_tokens},
                     .priority = request.priority,
                     .arrival = request.arrival,
                     .holds = {}};
  request.sequence = engine_id;
  request.output = std::move(start.output);
  for (AdapterUse& use : request.adapters) {
    if (use.id < kFirstSharedAdapter) continue;
    const SharedAdapterLoader::Ready& its = ready.at(use.id);
    use.id = its.adapter;
    running.holds.push_back(its.hold);
  }
  running_[engine_id] = std::move(running);
  engine_ids_[attempt.sequence] = engine_id;
  const Status status = engine_.Submit(std::move(request));
  if (status.ok()) return;
  running_.erase(engine_id);
  engine_ids_.erase(attempt.sequence);
  // Another runner might take it, unless it can run nowhere.
  const StatusCode code = status.code();
  const bool is_hopeless = code == StatusCode::kInvalidArgument || code == StatusCode::kNotFound;
  if (!is_hopeless) return Decline(attempt, link, status);
  Fail(attempt, num_output, link, status);
}

void RunnerNode::Decline(const delivery::ReleaseAttempt& attempt, LinkId link, const Status& why) {
  end_.OnFinished(attempt);
  links_.Send(link, delivery::AttemptRefused{attempt.sequence, attempt.attempt, Message(why)});
}

void RunnerNode::Fail(const delivery::ReleaseAttempt& attempt, int32_t num_output, LinkId link,
                      const Status& why) {
  end_.OnFinished(attempt);
  wire::TokenEvent failed;
  failed.sequence = attempt.sequence;
  failed.attempt = attempt.attempt;
  failed.index = num_output;
  failed.finish = wire::FinishReason::kError;
  failed.error = why;
  SendEvents(link, {std::move(failed)});
}

int64_t RunnerNode::PagesFor(const AdapterMix& mix, const ReadyAdapters& ready) const {
  const std::vector<int64_t>& adapter_pages = options_.hello.runner.adapter_pages;
  int64_t pages = 0;
  for (const AdapterUse& use : mix) {
    const auto index = static_cast<size_t>(use.id.value());
    const auto shared = ready.find(use.id);
    if (shared != ready.end()) pages += shared->second.pages;
    if (index < adapter_pages.size()) pages += adapter_pages[index];
  }
  return pages;
}

void RunnerNode::Handle(LinkId link, const delivery::ReleaseAttempt& release, TimePoint now) {
  const auto gateway = gateways_.find(link);
  if (gateway == gateways_.end() || gateway->second.id != GatewayOf(release.sequence)) return;
  if (end_.OnRelease(release)) Drop(release);
  Report(false, now);
}

void RunnerNode::Drop(const delivery::ReleaseAttempt& attempt) {
  loading_.erase(attempt.sequence);
  const auto found = engine_ids_.find(attempt.sequence);
  if (found == engine_ids_.end()) return;
  engine_.Cancel(found->second);
  running_.erase(found->second);
  engine_ids_.erase(found);
}

void RunnerNode::OnBroken(LinkId link, const Status& why, TimePoint now) {
  if (const std::string* const scheduler = scheduler_links_.Find(link)) {
    if (std::exchange(refused_[*scheduler], Message(why)) != Message(why)) {
      LogWarning(StrCat("no scheduler at ", *scheduler, ": ", Message(why)));
    }
    scheduler_links_.OnBroken(link, now);
    if (leader_ == link) leader_.reset();
    return;
  }
  const auto gateway = gateways_.find(link);
  if (gateway == gateways_.end()) return;
  const std::vector<delivery::ReleaseAttempt> released = end_.OnConnectionBroken(link);
  for (const delivery::ReleaseAttempt& attempt : released) Drop(attempt);
  if (gateway->second.id) {
    LogInfo(StrCat("gateway ", *gateway->second.id, " has gone: ", released.size(),
                   " sequences are released"));
  }
  gateways_.erase(gateway);
  Report(false, now);
}

void RunnerNode::OnTick(TimePoint now) {
  scheduler_links_.OnTick(OwnHello(), now);
  std::vector<LinkId> silent;
  for (const auto& [link, gateway] : gateways_) {
    if (!gateway.id && now - gateway.since > kHelloTimeout) silent.push_back(link);
  }
  for (const LinkId link : silent) Refuse(link, Unavailable("no Hello came in time"), now);
  if (now - last_report_ >= options_.report_interval) Report(true, now);
}

void RunnerNode::OnStep(const wire::StepStats& stats, const std::vector<wire::TokenEvent>& events,
                        TimePoint now) {
  pages_available_ = stats.pages_available;
  for (const wire::SequenceState& state : stats.sequences) {
    const auto running = running_.find(state.sequence);
    if (running != running_.end()) running->second.state = state;
  }
  bool has_ended = false;
  std::map<LinkId, std::vector<wire::TokenEvent>> by_link;
  for (const wire::TokenEvent& event : events) {
    const auto found = running_.find(event.sequence);
    if (found == running_.end()) continue;  // dropped meanwhile
    const Running& running = found->second;
    wire::TokenEvent sent = event;
    sent.sequence = running.sequence;
    sent.attempt = running.attempt;
    const LinkId link = running.link;
    if (CountLogprobs(sent) > kMaxLogprobs) {
      sent = {.sequence = sent.sequence, .attempt = sent.attempt, .index = sent.index};
      sent.finish = wire::FinishReason::kError;
      sent.error = InvalidArgument(
          StrCat("the logprobs of the prompt are too many for a cluster (", kMaxLogprobs,
                 " may be): ask for fewer alternatives, or for a shorter prompt's"));
      engine_.Cancel(event.sequence);
    }
    if (sent.finish) {
      has_ended = true;
      end_.OnFinished({running.sequence, running.attempt});
      engine_ids_.erase(running.sequence);
      running_.erase(found);
    }
    by_link[link].push_back(std::move(sent));
  }
  for (auto& [link, batch] : by_link) SendEvents(link, std::move(batch));
  Report(has_ended, now);
}

void RunnerNode::SendEvents(LinkId link, std::vector<wire::TokenEvent> events) {
  // What is large goes alone.
  TokenEvents small;
  for (wire::TokenEvent& event : events) {
    if (event.prompt_logprobs.empty() && event.pooled.empty()) {
      small.events.push_back(std::move(event));
    } else {
      links_.Send(link, TokenEvents{{std::move(event)}});
    }
  }
  if (!small.events.empty()) links_.Send(link, small);
}

wire::RunnerReport RunnerNode::MakeReport() const {
  wire::RunnerReport report;
  report.runner = RunnerId(options_.hello.id);
  report.number = report_number_;
  report.available_pages = pages_available_;
  report.sequences.reserve(running_.size() + loading_.size());
  for (const auto& [id, running] : running_) {
    const wire::SequenceState& state = running.state;
    using State = wire::RunnerSequenceState;
    const State waiting = state.has_started ? State::kEvicted : State::kPending;
    report.sequences.push_back({.sequence = running.sequence,
                                .gateway = running.gateway,
                                .attempt = running.attempt,
                                .state = state.is_running ? State::kRunning : waiting,
                                .adapter = running.adapter,
                                .adapter_pages = running.adapter_pages,
                                .num_tokens = state.num_tokens,
                                .num_generated = state.num_tokens - running.num_at_start,
                                .priority = running.priority,
                                .arrival = running.arrival});
    // What waits to start has been promised its pages, too.
    if (report.sequences.back().state == State::kPending) {
      report.available_pages -= options_.hello.runner.pages.For(state.num_tokens);
    }
  }
  for (const auto& [sequence, loading] : loading_) {
    const delivery::StartAttempt& start = loading.start;
    const auto num_tokens = static_cast<int32_t>(start.request.prompt.size() + start.output.size());
    report.sequences.push_back({.sequence = sequence,
                                .gateway = start.gateway,
                                .attempt = start.request.attempt,
                                .state = wire::RunnerSequenceState::kLoading,
                                .adapter = start.request.adapters.front().id,
                                .adapter_pages = start.adapter_pages,
                                .num_tokens = num_tokens,
                                .priority = start.request.priority,
                                .arrival = start.request.arrival});
    report.available_pages -= options_.hello.runner.pages.For(num_tokens);
  }
  report.available_pages = std::max<int64_t>(0, report.available_pages);
  return report;
}

void RunnerNode::Report(bool at_once, TimePoint now) {
  if (!leader_) return;
  if (!at_once && now - last_report_ < options_.min_report_interval) return;
  last_report_ = now;
  ++report_number_;
  links_.Send(*leader_, MakeReport());
}

}  // namespace aril::cluster

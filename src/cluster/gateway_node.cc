#include "cluster/gateway_node.h"

#include <algorithm>

#include "base/checked.h"
#include "base/log.h"
#include "base/retry_after.h"
#include "base/strings.h"

namespace aril::cluster {
namespace {

delivery::GatewayEndOptions EndOptions(const GatewayNodeOptions& options) {
  delivery::GatewayEndOptions end = options.end;
  end.gateway = GatewayId(options.hello.id);
  return end;
}

}  // namespace

GatewayNode::GatewayNode(GatewayNodeOptions options, Links& links, wire::EventSink& sink)
    : options_(std::move(options)),
      links_(links),
      sink_(sink),
      end_(EndOptions(options_)),
      scheduler_links_(links, options_.redial_after),
      runner_links_(links, options_.redial_after) {
  for (const std::string& address : options_.schedulers) scheduler_links_.Add(address);
}

Hello GatewayNode::OwnHello() const {
  Hello hello = options_.hello;
  hello.epoch = std::max(Epoch(0), end_.epoch());
  return hello;
}

void GatewayNode::Submit(wire::SequenceRequest request, TimePoint now) {
  const SequenceId local = request.sequence;
  const SequenceId id = MakeSequenceId(GatewayId(options_.hello.id), next_number_);
  // After four billion sequences the numbers begin anew; the old ones have long gone.
  ++next_number_;
  request.sequence = id;
  in_cluster_[local] = id;
  in_process_[id] = local;
  const int64_t pages = PagesFor(request);
  auto effects = end_.Open(std::move(request), {.adapter_pages = pages, .priority = 0}, now);
  if (effects.ok()) {
    Perform(*effects, now);
  } else {
    wire::TokenEvent refused;
    refused.sequence = id;
    refused.finish = wire::FinishReason::kError;
    refused.error = effects.status();
    Deliver(std::move(refused));
  }
  Flush(false);
}

void GatewayNode::Cancel(SequenceId sequence, TimePoint now) {
  const auto found = in_cluster_.find(sequence);
  if (found == in_cluster_.end()) return;
  const SequenceId id = found->second;
  in_process_.erase(id);
  in_cluster_.erase(found);
  class_of_.erase(id);
  Perform(end_.Cancel(id), now);
}

// What adapters take is known once a runner has said so. Before, nothing can be placed anyway.
int64_t GatewayNode::PagesFor(const wire::SequenceRequest& request) const {
  int64_t pages = 0;
  for (const AdapterUse& use : request.adapters) {
    const auto index = static_cast<size_t>(use.id.value());
    if (index < adapter_pages_.size()) pages += adapter_pages_[index];
    if (use.id < delivery::kFirstSharedAdapter || !options_.find_shared || page_bytes_ == 0)
      continue;
    if (const auto shared = options_.find_shared(use.id, request.tenant)) {
      pages += CeilDiv(shared->pool_bytes, page_bytes_);
    }
  }
  return pages;
}

// Of an adapter that nobody knows any more nothing is said, and the runner says so.
std::vector<delivery::SharedAdapter> GatewayNode::SharedOf(
    const wire::SequenceRequest& request) const {
  std::vector<delivery::SharedAdapter> shared;
  for (const AdapterUse& use : request.adapters) {
    if (use.id < delivery::kFirstSharedAdapter || !options_.find_shared) continue;
    auto found = options_.find_shared(use.id, request.tenant);
    if (found) shared.push_back(std::move(found->shared));
  }
  return shared;
}

delivery::StartAttempt GatewayNode::WithShared(delivery::StartAttempt start) const {
  start.shared = SharedOf(start.request);
  return start;
}

void GatewayNode::OnAccepted(LinkId link, TimePoint) {
  links_.Close(link, FailedPrecondition("a gateway takes no links; connect to a scheduler"));
}

void GatewayNode::OnFrame(LinkId link, Frame frame, TimePoint now) {
  std::visit([&](const auto& body) { Handle(link, body, now); }, frame);
  Flush(false);
}

template <typename Unexpected>
void GatewayNode::Handle(LinkId link, const Unexpected& body, TimePoint now) {
  Refuse(link, InvalidArgument(StrCat("a ", NameOf(Frame(body)), " is not for a gateway")), now);
}

void GatewayNode::Refuse(LinkId link, const Status& why, TimePoint now) {
  links_.Close(link, why);
  OnBroken(link, why, now);
}

void GatewayNode::Handle(LinkId link, const Hello& hello, TimePoint now) {
  if (runner_links_.Find(link) != nullptr) return HandleRunnerHello(link, hello, now);
  if (scheduler_links_.Find(link) == nullptr) return;
  if (const Status status = CheckPeer(options_.hello, hello, Role::kScheduler); !status.ok()) {
    return Refuse(link, status, now);
  }
  scheduler_links_.OnHello(link);
}

void GatewayNode::Handle(LinkId link, const Welcome& welcome, TimePoint now) {
  if (scheduler_links_.Find(link) == nullptr || welcome.epoch < end_.epoch()) return;
  leader_ = link;
  is_serving_ = true;
  refused_.erase(*scheduler_links_.Find(link));
  LogInfo(StrCat("the scheduler at ", *scheduler_links_.Find(link), " leads, under epoch ",
                 welcome.epoch));
  Perform(end_.OnScheduler(welcome.epoch, now), now);
}

void GatewayNode::Handle(LinkId link, const RunnerList& list, TimePoint now) {
  if (leader_ != link) return;
  std::map<RunnerId, std::string> listed;
  for (const RunnerList::Runner& runner : list.runners) listed[runner.runner] = runner.address;
  for (const auto& old : listed_) {
    const bool is_wanted =
        std::ranges::any_of(listed, [&](const auto& entry) { return entry.second == old.second; });
    // What runs there goes on: its link stays until it breaks.
    if (!is_wanted) runner_links_.Remove(old.second);
  }
  listed_ = std::move(listed);
  for (const auto& [id, address] : listed_) runner_links_.Add(address);
  runner_links_.OnTick(OwnHello(), now);
  std::vector<RunnerId> gone;
  for (const auto& [id, starts] : held_) {
    if (!listed_.contains(id)) gone.push_back(id);
  }
  FailStarts(gone, now);
}

void GatewayNode::Handle(LinkId link, const wire::Placement& placement, TimePoint now) {
  if (scheduler_links_.Find(link) == nullptr) return;
  if (placement.gateway != GatewayId(options_.hello.id)) return;  // of an earlier life
  Perform(end_.OnPlacement(placement, now), now);
}

void GatewayNode::Handle(LinkId link, const Refusal& refusal, TimePoint now) {
  if (leader_ != link) return;
  const bool is_for_good = refusal.retry_after == Duration(0);
  const Status status =
      is_for_good ? InvalidArgument(refusal.reason)
                  : WithRetryAfter(ResourceExhausted(refusal.reason), refusal.retry_after);
  Perform(end_.OnRefused(refusal.sequence, status, now), now);
}

// Adapters that the runner was started with are a short copy away from its pool.
void GatewayNode::Handle(LinkId link, const Prefetch& prefetch, TimePoint) {
  const wire::SequenceRequest* const request = end_.Find(prefetch.sequence);
  const auto runner = runners_.find(prefetch.runner);
  if (leader_ != link || request == nullptr || runner == runners_.end()) return;
  if (!takes_hints_.contains(prefetch.runner)) return;
  LoadAdapters load = {.tenant = request->tenant, .shared = SharedOf(*request)};
  if (!load.shared.empty()) links_.Send(runner->second, std::move(load));
}

Status GatewayNode::CheckRunner(const Hello& hello) const {
  RETURN_IF_ERROR(CheckPeer(options_.hello, hello, Role::kRunner));
  if (hello.runner.max_model_len >= options_.max_model_len) return OkStatus();
  return FailedPrecondition(
      StrCat("the runner holds ", hello.runner.max_model_len,
             " tokens of a sequence, and this gateway promises ", options_.max_model_len,
             ": start the gateway with --max-model-len ", hello.runner.max_model_len,
             ", or the runner with a larger --max-model-len or --pool-bytes"));
}

void GatewayNode::HandleRunnerHello(LinkId link, const Hello& hello, TimePoint now) {
  const std::string address = *runner_links_.Find(link);
  if (const Status status = CheckRunner(hello); !status.ok()) return Refuse(link, status, now);
  const RunnerId id(hello.id);
  if (const auto other = runners_.find(id); other != runners_.end()) {
    return Refuse(link, FailedPrecondition(StrCat("runner ", id, " is connected already")), now);
  }
  runner_links_.OnHello(link);
  refused_.erase(address);
  runners_[id] = link;
  runner_of_[link] = id;
  classes_[id] = hello.runner.numeric_class;
  if (hello.takes_hints) takes_hints_.insert(id);
  adapter_pages_ = hello.runner.adapter_pages;
  page_bytes_ = hello.runner.page_bytes;
  LogInfo(StrCat("connected to runner ", id, " at ", address));
  for (delivery::StartAttempt& start : std::exchange(held_[id], {})) links_.Send(link, start);
  held_.erase(id);
  FailHeld(address, now);  // for an earlier life of it
}

// Attempts for what was to be at an address: nothing comes of them.
void GatewayNode::FailHeld(const std::string& address, TimePoint now) {
  std::vector<RunnerId> failed;
  for (const auto& [id, starts] : held_) {
    const auto listed = listed_.find(id);
    if (listed == listed_.end() || listed->second == address) failed.push_back(id);
  }
  FailStarts(failed, now);
}

void GatewayNode::FailStarts(const std::vector<RunnerId>& runners, TimePoint now) {
  for (const RunnerId id : runners) {
    held_.erase(id);
    Perform(end_.OnRunnerBroken(id, now), now);
  }
}

void GatewayNode::Handle(LinkId link, const TokenEvents& events, TimePoint now) {
  const auto runner = runner_of_.find(link);
  if (runner == runner_of_.end()) return;
  const RunnerId id = runner->second;
  for (const wire::TokenEvent& event : events.events) {
    const delivery::Effects effects = end_.OnToken(id, event, now);
    // What follows its first token is to be of the same class, wherever it is computed.
    const bool is_first =
        event.index == 0 && std::ranges::any_of(effects, [](const delivery::Effect& effect) {
          return std::holds_alternative<delivery::Deliver>(effect);
        });
    if (is_first && in_process_.contains(event.sequence)) {
      class_of_[event.sequence] = classes_.at(id);
    }
    Perform(effects, now);
  }
}

void GatewayNode::Handle(LinkId link, const delivery::AttemptRefused& refused, TimePoint now) {
  const auto runner = runner_of_.find(link);
  if (runner == runner_of_.end()) return;
  Perform(end_.OnAttemptRefused(runner->second, refused, now), now);
}

void GatewayNode::OnBroken(LinkId link, const Status& why, TimePoint now) {
  if (const std::string* const scheduler = scheduler_links_.Find(link)) {
    if (std::exchange(refused_[*scheduler], Message(why)) != Message(why)) {
      LogWarning(StrCat("no scheduler at ", *scheduler, ": ", Message(why)));
    }
    scheduler_links_.OnBroken(link, now);
    if (leader_ == link) {
      leader_.reset();
      Perform(end_.OnScheduler(std::nullopt, now), now);
    }
  } else if (const std::string* const found = runner_links_.Find(link)) {
    const std::string address = *found;
    if (std::exchange(refused_[address], Message(why)) != Message(why)) {
      LogWarning(StrCat("no runner at ", address, ": ", Message(why)));
    }
    runner_links_.OnBroken(link, now);
    FailHeld(address, now);
    if (const auto runner = runner_of_.find(link); runner != runner_of_.end()) {
      const RunnerId id = runner->second;
      runners_.erase(id);
      runner_of_.erase(runner);
      classes_.erase(id);
      takes_hints_.erase(id);
      Perform(end_.OnRunnerBroken(id, now), now);
    }
  }
  Flush(false);
}

void GatewayNode::OnTick(TimePoint now) {
  scheduler_links_.OnTick(OwnHello(), now);
  runner_links_.OnTick(OwnHello(), now);
  // From the start, when there has not been one yet.
  if (!leader_) Perform(end_.OnScheduler(std::nullopt, now), now);
  Perform(end_.OnTick(now), now);
  is_serving_ = leader_.has_value() || (is_serving_ && !end_.IsAbandoned(now));
  // Not at once: an attempt that fails is placed again, perhaps there.
  for (const RunnerId id : std::exchange(unreachable_, {})) {
    Perform(end_.OnRunnerBroken(id, now), now);
  }
  Flush(true);
}

void GatewayNode::Perform(const delivery::Effects& effects, TimePoint now) {
  for (const delivery::Effect& effect : effects) {
    if (const auto* submission = std::get_if<wire::Submission>(&effect)) {
      wire::Submission sent = *submission;
      if (sent.num_generated > 0) sent.numeric_class = class_of_[sent.sequence];
      ToScheduler(sent);
    } else if (const auto* close = std::get_if<delivery::CloseSequence>(&effect)) {
      ToScheduler(*close);
    } else if (const auto* start = std::get_if<delivery::StartOn>(&effect)) {
      Start(*start, now);
    } else if (const auto* release = std::get_if<delivery::ReleaseOn>(&effect)) {
      Release(*release);
    } else if (const auto* deliver = std::get_if<delivery::Deliver>(&effect)) {
      Deliver(deliver->event);
    }
  }
}

void GatewayNode::ToScheduler(const Frame& frame) {
  if (leader_) links_.Send(*leader_, frame);
}

void GatewayNode::Start(const delivery::StartOn& start, TimePoint) {
  const auto runner = runners_.find(start.runner);
  if (runner != runners_.end()) return links_.Send(runner->second, WithShared(start.start));
  const auto listed = listed_.find(start.runner);
  if (listed != listed_.end() && runner_links_.Has(listed->second)) {
    held_[start.runner].push_back(WithShared(start.start));
  } else if (std::ranges::find(unreachable_, start.runner) == unreachable_.end()) {
    unreachable_.push_back(start.runner);
  }
}

void GatewayNode::Release(const delivery::ReleaseOn& release) {
  const auto runner = runners_.find(release.runner);
  if (runner != runners_.end()) return links_.Send(runner->second, release.release);
  const auto held = held_.find(release.runner);
  if (held == held_.end()) return;
  std::erase_if(held->second, [&](const delivery::StartAttempt& start) {
    return start.request.sequence == release.release.sequence &&
           start.request.attempt == release.release.attempt;
  });
}

void GatewayNode::Deliver(wire::TokenEvent event) {
  const auto found = in_process_.find(event.sequence);
  if (found == in_process_.end()) return;
  event.sequence = found->second;
  if (event.finish) {
    class_of_.erase(found->first);
    in_cluster_.erase(found->second);
    in_process_.erase(found);
  }
  delivered_.push_back(std::move(event));
}

void GatewayNode::Flush(bool counts) {
  const wire::StepStats before = stats_;
  if (counts) {
    const auto num_placed = static_cast<int32_t>(end_.CountPlaced());
    stats_.num_running = num_placed;
    stats_.num_waiting = static_cast<int32_t>(end_.num_live()) - num_placed;
  }
  const bool has_changed =
      before.num_running != stats_.num_running || before.num_waiting != stats_.num_waiting;
  if (delivered_.empty() && !has_changed) return;
  sink_.OnStep(stats_, std::exchange(delivered_, {}));
}

}  // namespace aril::cluster

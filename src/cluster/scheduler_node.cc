#include "cluster/scheduler_node.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/strings.h"

namespace aril::cluster {

SchedulerNode::SchedulerNode(SchedulerNodeOptions options, Links& links)
    : options_(std::move(options)), links_(links) {}

void SchedulerNode::Lead(Epoch epoch, TimePoint now) {
  epoch_ = epoch;
  reign_.reset();
  LogInfo(StrCat("this scheduler leads, under epoch ", epoch));
  TryReign(now);
}

void SchedulerNode::StepDown(TimePoint now) {
  if (!epoch_) return;
  LogInfo(StrCat("this scheduler does not lead any more; its epoch was ", *epoch_));
  epoch_.reset();
  EndReign(Unavailable("this scheduler does not lead any more"), now);
}

// Gateways come back, and wait for a Welcome.
void SchedulerNode::EndReign(const Status& why, TimePoint now) {
  if (reign_ == nullptr) return;
  reign_.reset();
  for (const auto& [id, link] : std::map<GatewayId, LinkId>(gateways_)) {
    links_.Close(link, why);
    OnBroken(link, why, now);
  }
}

void SchedulerNode::TryReign(TimePoint now) {
  if (!epoch_ || reign_ != nullptr || runners_.empty()) return;
  scheduler::SchedulerOptions options = options_.scheduler;
  options.pages = peers_.at(runners_.begin()->second).hello->runner.pages;
  reign_ = std::make_unique<scheduler::Scheduler>(options, options_.policies(), *epoch_);
  for (const auto& [link, peer] : peers_) {
    if (peer.hello) Greet(link, *peer.hello, now);
  }
}

// Under this reign.
void SchedulerNode::Greet(LinkId link, const Hello& hello, TimePoint now) {
  if (reign_ == nullptr) return;
  links_.Send(link, Welcome{*epoch_});
  if (hello.role == Role::kGateway) {
    RunnerList list;
    for (const auto& [id, runner] : runners_) {
      list.runners.push_back({id, peers_.at(runner).hello->address});
    }
    return links_.Send(link, list);
  }
  Tell(scheduler::RunnerJoined{{.runner = RunnerId(hello.id),
                                .numeric_class = hello.runner.numeric_class,
                                .max_running = hello.runner.max_running,
                                .pages_total = hello.runner.pages_total,
                                .caches_prefixes = hello.runner.caches_prefixes}},
       now);
}

void SchedulerNode::SendRunnerList() {
  if (reign_ == nullptr) return;
  RunnerList list;
  for (const auto& [id, link] : runners_) {
    list.runners.push_back({id, peers_.at(link).hello->address});
  }
  for (const auto& [id, link] : gateways_) links_.Send(link, list);
}

void SchedulerNode::OnAccepted(LinkId link, TimePoint now) { peers_[link].since = now; }

void SchedulerNode::OnFrame(LinkId link, Frame frame, TimePoint now) {
  const auto peer = peers_.find(link);
  if (peer == peers_.end()) return;
  const bool is_hello = std::holds_alternative<Hello>(frame);
  if (is_hello == peer->second.hello.has_value()) {
    return Refuse(link,
                  InvalidArgument(
                      StrCat("a ", NameOf(frame), is_hello ? " after the first" : " before Hello")),
                  now);
  }
  std::visit([&](auto& body) { Handle(link, peer->second, body, now); }, frame);
}

template <typename Unexpected>
void SchedulerNode::Handle(LinkId link, Peer&, const Unexpected& body, TimePoint now) {
  Refuse(link, InvalidArgument(StrCat("a ", NameOf(Frame(body)), " is not for a scheduler")), now);
}

void SchedulerNode::Refuse(LinkId link, const Status& why, TimePoint now) {
  LogWarning(StrCat("a link is refused: ", Message(why)));
  links_.Close(link, why);
  OnBroken(link, why, now);
}

// The first that is there says what is served.
Status SchedulerNode::CheckHello(const Hello& hello) const {
  if (hello.role == Role::kScheduler) {
    return FailedPrecondition("a scheduler takes links of gateways and runners");
  }
  RETURN_IF_ERROR(CheckCompatible(hello));
  const bool is_gateway = hello.role == Role::kGateway;
  const bool is_known =
      is_gateway ? gateways_.contains(GatewayId(hello.id)) : runners_.contains(RunnerId(hello.id));
  if (is_known) {
    return FailedPrecondition(StrCat(NameOf(hello.role), " ", hello.id, " is connected already"));
  }
  for (const auto& [link, peer] : peers_) {
    if (!peer.hello) continue;
    // Gateways would look for both there, and find one.
    if (!is_gateway && peer.hello->role == Role::kRunner && peer.hello->address == hello.address) {
      return FailedPrecondition(StrCat("runner ", peer.hello->id, " is at ", hello.address,
                                       " already: start runner ", hello.id,
                                       " with an --advertise of its own, where gateways find it"));
    }
  }
  for (const auto& [link, peer] : peers_) {
    if (!peer.hello) continue;
    RETURN_IF_ERROR(CheckPeer(*peer.hello, hello, hello.role));
    if (peer.hello->role != Role::kRunner || is_gateway) continue;
    const RunnerCapacity& theirs = peer.hello->runner;
    const RunnerCapacity& its = hello.runner;
    if (theirs.pages == its.pages && theirs.page_bytes == its.page_bytes) break;
    const auto describe = [](const RunnerCapacity& capacity) {
      return StrCat(capacity.pages.page_tokens, " tokens and ", capacity.page_bytes, " bytes (",
                    capacity.pages.state_pages, " more for each sequence)");
    };
    return FailedPrecondition(StrCat(
        "the runner's pages have ", describe(its), ", and those of the others ", describe(theirs),
        ": start all runners of a cluster with the same --dtype, and in one version"));
  }
  return OkStatus();
}

void SchedulerNode::Handle(LinkId link, Peer& peer, Hello& hello, TimePoint now) {
  if (const Status status = CheckHello(hello); !status.ok()) return Refuse(link, status, now);
  Hello own = options_.hello;
  own.epoch = epoch_.value_or(Epoch(0));
  links_.Send(link, own);
  LogInfo(StrCat(NameOf(hello.role), " ", hello.id, " has come"));
  const Epoch heard = hello.epoch;
  const bool is_gateway = hello.role == Role::kGateway;
  peer.hello = std::move(hello);
  if (is_gateway) {
    gateways_[GatewayId(peer.hello->id)] = link;
    gone_.erase(GatewayId(peer.hello->id));
  } else {
    runners_[RunnerId(peer.hello->id)] = link;
  }
  const bool is_outdated = epoch_ && heard > *epoch_;
  if (is_outdated && options_.is_alone) {
    // This process has been started again, by a clock that went back: it rules anew, above its
    // earlier life.
    return Lead(Epoch(heard.value() + 1), now);
  }
  if (is_outdated) {
    LogWarning(StrCat("a ", NameOf(peer.hello->role), " has heard of epoch ", heard,
                      ", and this scheduler leads under ", *epoch_,
                      ": another one has been elected, or etcd has lost its data, in which case "
                      "gateways and runners must be started again"));
  }
  if (reign_ == nullptr) {
    TryReign(now);
  } else {
    Greet(link, *peer.hello, now);
  }
  if (!is_gateway) SendRunnerList();
}

void SchedulerNode::Handle(LinkId link, Peer& peer, const wire::Submission& submission,
                           TimePoint now) {
  const GatewayId id(peer.hello->id);
  const bool is_its_own = peer.hello->role == Role::kGateway && submission.gateway == id &&
                          GatewayOf(submission.sequence) == id;
  if (!is_its_own) return Refuse(link, InvalidArgument("a Submission of another gateway's"), now);
  Tell(submission, now);
}

void SchedulerNode::Handle(LinkId link, Peer& peer, const delivery::CloseSequence& close,
                           TimePoint now) {
  const bool is_its_own =
      peer.hello->role == Role::kGateway && GatewayOf(close.sequence) == GatewayId(peer.hello->id);
  if (!is_its_own) return Refuse(link, InvalidArgument("a sequence of another gateway's"), now);
  Tell(scheduler::SequenceClosed{close.sequence}, now);
}

void SchedulerNode::Handle(LinkId link, Peer& peer, const wire::RunnerReport& report,
                           TimePoint now) {
  const bool is_its_own =
      peer.hello->role == Role::kRunner && report.runner == RunnerId(peer.hello->id);
  if (!is_its_own) return Refuse(link, InvalidArgument("a report of another runner's"), now);
  Tell(report, now);
}

void SchedulerNode::Handle(LinkId link, Peer& peer, const RunnerLeaving&, TimePoint now) {
  if (peer.hello->role != Role::kRunner) {
    return Refuse(link, InvalidArgument("RunnerLeaving of a gateway"), now);
  }
  LogInfo(StrCat("runner ", peer.hello->id, " is leaving"));
  Tell(scheduler::RunnerLeaving{RunnerId(peer.hello->id)}, now);
}

void SchedulerNode::OnBroken(LinkId link, const Status& why, TimePoint now) {
  const auto found = peers_.find(link);
  if (found == peers_.end()) return;
  const std::optional<Hello> hello = std::move(found->second.hello);
  peers_.erase(found);
  if (!hello) return;
  LogInfo(StrCat(NameOf(hello->role), " ", hello->id, " has gone: ", Message(why)));
  if (hello->role == Role::kGateway) {
    gateways_.erase(GatewayId(hello->id));
    gone_[GatewayId(hello->id)] = now;
    return;
  }
  runners_.erase(RunnerId(hello->id));
  Tell(scheduler::RunnerLost{RunnerId(hello->id)}, now);
  SendRunnerList();
  if (runners_.empty()) EndReign(Unavailable("the last runner has gone"), now);
}

void SchedulerNode::OnTick(TimePoint now) {
  std::vector<LinkId> silent;
  for (const auto& [link, peer] : peers_) {
    if (!peer.hello && now - peer.since > kHelloTimeout) silent.push_back(link);
  }
  for (const LinkId link : silent) Refuse(link, Unavailable("no Hello came in time"), now);
  std::vector<GatewayId> lost;
  for (const auto& [gateway, since] : gone_) {
    if (now - since > options_.gateway_timeout) lost.push_back(gateway);
  }
  for (const GatewayId gateway : lost) {
    gone_.erase(gateway);
    Tell(scheduler::GatewayLost{gateway}, now);
  }
  Tell(scheduler::Tick{}, now);
}

void SchedulerNode::Tell(const scheduler::Event& event, TimePoint now) {
  if (reign_ != nullptr) Obey(reign_->Handle(event, now));
}

void SchedulerNode::Obey(const scheduler::Actions& actions) {
  for (const scheduler::Action& action : actions) {
    if (const auto* placement = std::get_if<wire::Placement>(&action)) {
      ToGateway(placement->gateway, *placement);
    } else if (const auto* refuse = std::get_if<scheduler::Refuse>(&action)) {
      ToGateway(refuse->gateway, Refusal{refuse->sequence, refuse->retry_after, refuse->reason});
    } else if (const auto* prefetch = std::get_if<scheduler::Prefetch>(&action)) {
      const auto link = gateways_.find(prefetch->gateway);
      if (link == gateways_.end() || !peers_.at(link->second).hello->takes_hints) continue;
      links_.Send(link->second, Prefetch{prefetch->sequence, prefetch->runner});
    } else if (const auto* advice = std::get_if<scheduler::ScaleAdvice>(&action)) {
      LogInfo(StrCat("scaling: ", advice->num_wanted, " more runners wanted, ",
                     advice->returnable.size(), " may go"));
    }
  }
}

void SchedulerNode::ToGateway(GatewayId gateway, const Frame& frame) {
  const auto link = gateways_.find(gateway);
  if (link != gateways_.end()) links_.Send(link->second, frame);
}

}  // namespace aril::cluster

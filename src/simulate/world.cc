#include "simulate/world.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "base/strings.h"

namespace aril::simulate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kCampaignInterval = milliseconds(500);
constexpr Duration kTickInterval = milliseconds(250);
constexpr Duration kReportInterval = milliseconds(200);
// For how long a scheduler may not know that a sequence has ended.
constexpr Duration kOldNews = seconds(15);

}  // namespace

World::World(const WorldOptions& options) : options_(options), random_(options.seed) {
  network_ = std::make_unique<Network>(
      loop_, random_,
      Network::Handlers{
          .run = [this](int node, std::function<void()> callback) { Run(node, callback); },
          .is_alive = [this](int node) { return At(node).is_alive; },
          .on_connected = [this](int node, int peer,
                                 delivery::ConnectionId id) { OnConnected(node, peer, id); },
          .on_broken = [this](int node, int peer,
                              delivery::ConnectionId id) { OnBroken(node, peer, id); }});
  const int num_nodes = options.num_schedulers + options.num_gateways + options.num_runners;
  nodes_.resize(static_cast<size_t>(num_nodes));
  for (int node = 0; node < num_nodes; ++node) {
    At(node).kind = node < GatewayNode(0)  ? Kind::kScheduler
                    : node < RunnerNode(0) ? Kind::kGateway
                                           : Kind::kRunner;
    Boot(node);
  }
  for (int a = 0; a < num_nodes; ++a) {
    for (int b = a + 1; b < num_nodes; ++b) {
      if (At(a).kind != At(b).kind) network_->Link(a, b);
    }
  }
}

void World::Boot(int node) {
  Node& n = At(node);
  n.is_alive = true;
  n.leader = -1;
  n.told_epoch = Epoch();
  switch (n.kind) {
    case Kind::kScheduler:
      Every(node, kCampaignInterval, [this, node] { Campaign(node); });
      Every(node, kTickInterval, [this, node] {
        if (At(node).scheduler) Tell(node, scheduler::Tick{});
      });
      break;
    case Kind::kGateway: {
      n.gateway_id = GatewayId(next_id_++);
      gateway_nodes_[n.gateway_id] = node;
      delivery::GatewayEndOptions gateway = options_.gateway;
      gateway.gateway = n.gateway_id;
      n.gateway = std::make_unique<delivery::GatewayEnd>(gateway);
      n.runners.clear();
      Every(node, kTickInterval, [this, node] { Perform(node, At(node).gateway->OnTick(now())); });
      break;
    }
    case Kind::kRunner: {
      n.runner_id = RunnerId(next_id_++);
      runner_nodes_[n.runner_id] = node;
      n.end = std::make_unique<delivery::RunnerEnd>(options_.max_runner_live);
      RunnerModelOptions model = options_.runner;
      model.bug = options_.bug;
      n.model = std::make_unique<RunnerModel>(model);
      n.is_stepping = false;
      n.report_number = 0;
      n.model_evictions = 0;
      Every(node, kReportInterval, [this, node] { Report(node, true); });
      break;
    }
  }
}

void World::Run(int node, const std::function<void()>& callback) {
  RunLife(node, At(node).life, callback);
}

void World::RunLife(int node, int64_t life, const std::function<void()>& callback) {
  Node& n = At(node);
  if (!n.is_alive || n.life != life) return;
  // Behind what waits already, so that everything stays in its order.
  if (now() < n.paused_until || !n.deferred.empty()) {
    n.deferred.push_back(callback);
    return;
  }
  callback();
  if (options_.checks_every_event) Audit(node);
}

void World::Resume(int node, int64_t life) {
  Node& n = At(node);
  if (n.life != life || now() < n.paused_until) return;
  std::deque<std::function<void()>> deferred = std::exchange(n.deferred, {});
  for (const std::function<void()>& callback : deferred) RunLife(node, life, callback);
}

void World::Every(int node, Duration interval, const std::function<void()>& callback) {
  loop_.After(interval, [this, node, interval, callback, life = At(node).life] {
    RunLife(node, life, [this, node, interval, callback] {
      callback();
      Every(node, interval, callback);
    });
  });
}

void World::RunUntil(TimePoint end) {
  while (!loop_.empty() && loop_.next() <= end && checker_.violation().empty()) loop_.Step();
}

const scheduler::Scheduler* World::Leader() const {
  return leader_ < 0 ? nullptr : At(leader_).scheduler.get();
}

// What must hold after every event at a node.
void World::Audit(int node) {
  const Node& n = At(node);
  checker_.Fold(static_cast<uint64_t>(node) +
                static_cast<uint64_t>(now().time_since_epoch().count()));
  if (n.kind == Kind::kRunner) {
    const std::string wrong = n.model->Audit();
    if (!wrong.empty()) checker_.Violate(now(), StrCat("runner ", n.runner_id, ": ", wrong));
    if (n.model->num_sequences() != n.end->num_live()) {
      checker_.Violate(now(), StrCat("runner ", n.runner_id, " runs ", n.model->num_sequences(),
                                     " sequences and accounts for ", n.end->num_live()));
    }
    if (n.end->num_live() > options_.max_runner_live) {
      checker_.Violate(now(), StrCat("runner ", n.runner_id, " has too many sequences"));
    }
  } else if (n.kind == Kind::kScheduler && n.scheduler) {
    // Those whose clients have had an attempt are let in beyond the bound.
    size_t num_started = 0;
    if (n.scheduler->num_waiting() > options_.max_waiting) {
      for (const auto& [id, stream] : checker_.streams()) {
        const bool is_known = stream.end == StreamEnd::kLive || now() - stream.ended < kOldNews;
        num_started += is_known && stream.attempt > 0 ? 1 : 0;
      }
    }
    if (n.scheduler->num_waiting() > options_.max_waiting + num_started) {
      checker_.Violate(now(), StrCat("the queue has ", n.scheduler->num_waiting(), " sequences; ",
                                     options_.max_waiting, " may wait"));
    }
  } else if (n.kind == Kind::kGateway && n.gateway->num_live() > options_.gateway.max_live) {
    checker_.Violate(now(), "a gateway has too many sequences");
  }
}

void World::OnConnected(int node, int peer, delivery::ConnectionId) {
  Node& n = At(node);
  if (n.kind == Kind::kScheduler && n.scheduler) Greet(node, peer);
  if (n.kind == Kind::kGateway && At(peer).kind == Kind::kRunner) {
    n.runners[peer] = At(peer).runner_id;
  }
}

void World::OnBroken(int node, int peer, delivery::ConnectionId connection) {
  Node& n = At(node);
  const Kind other = At(peer).kind;
  if (other == Kind::kScheduler && n.leader == peer) {
    n.leader = -1;
    if (n.kind == Kind::kGateway) Perform(node, n.gateway->OnScheduler(std::nullopt, now()));
  }
  if (n.kind == Kind::kGateway && other == Kind::kRunner) {
    const auto runner = n.runners.find(peer);
    if (runner == n.runners.end()) return;
    const RunnerId id = runner->second;
    n.runners.erase(runner);
    Perform(node, n.gateway->OnRunnerBroken(id, now()));
  }
  if (n.kind == Kind::kRunner && other == Kind::kGateway) {
    if (Has(PlantedBug::kBrokenConnectionIgnored)) return;
    for (const delivery::ReleaseAttempt& released : n.end->OnConnectionBroken(connection)) {
      n.model->Remove(released.sequence);
    }
    Report(node, false);
  }
  if (n.kind == Kind::kScheduler && n.scheduler && other == Kind::kRunner) {
    // Of the life that it had: a new one has another id, and has not greeted.
    for (const auto& [id, at] : runner_nodes_) {
      if (at == peer && n.scheduler->runners().Has(id)) Tell(node, scheduler::RunnerLost{id});
    }
  }
}

// --- Schedulers, and etcd as they see it

// Asks etcd, whose answer takes its time: until then a leader of the past believes that it rules.
void World::Campaign(int node) {
  loop_.After(random_.Time(milliseconds(1), milliseconds(40)), [this, node, life = At(node).life] {
    RunLife(node, life, [this, node] { Rule(node); });
  });
}

void World::Rule(int node) {
  Node& n = At(node);
  if (now() < etcd_down_until_) return;
  const bool holds = leader_ == node && leader_life_ == n.life;
  if (holds) {
    lease_until_ = now() + options_.lease;
    return;
  }
  n.scheduler.reset();  // somebody else leads
  if (now() < lease_until_) return;
  epoch_ = Epoch(epoch_.value() + 1);
  leader_ = node;
  leader_life_ = n.life;
  lease_until_ = now() + options_.lease;
  reigns_[epoch_] = {node, n.life};
  n.gateways.clear();
  scheduler::Policies policies = options_.policies ? options_.policies() : scheduler::Policies();
  if (Has(PlantedBug::kUnboundedQueue)) {
    policies.bound = std::make_unique<scheduler::FixedBound>(SIZE_MAX);
  }
  n.scheduler =
      std::make_unique<scheduler::Scheduler>(options_.scheduler, std::move(policies), epoch_);
  for (int peer = GatewayNode(0); peer < num_nodes(); ++peer) {
    if (network_->IsUp(node, peer)) Greet(node, peer);
  }
}

void World::Greet(int node, int peer) {
  const Epoch epoch = At(node).scheduler->epoch();
  network_->Send(node, peer, [this, node, peer, epoch] { OnGreeted(peer, node, epoch); });
}

void World::OnGreeted(int node, int scheduler_node, Epoch epoch) {
  Node& n = At(node);
  const bool is_past = epoch < n.told_epoch;
  n.told_epoch = std::max(n.told_epoch, epoch);
  if (n.kind == Kind::kRunner) {
    const bool is_obeyed = Has(PlantedBug::kEpochForgotten) ? !is_past : n.end->OnEpoch(epoch);
    if (!is_obeyed) return;
    n.leader = scheduler_node;
    const wire::RunnerInfo info = {n.runner_id, "a", options_.runner.max_running,
                                   options_.runner.pages_total};
    ToLeader(node, scheduler::RunnerJoined{info});
    Report(node, true);
    return;
  }
  if (epoch < n.gateway->epoch()) return;
  n.leader = scheduler_node;
  network_->Send(node, scheduler_node, [this, node, scheduler_node, id = n.gateway_id] {
    Node& s = At(scheduler_node);
    if (!s.scheduler) return;
    const auto [it, is_new] = s.gateways.try_emplace(node, id);
    if (it->second == id) return;
    const GatewayId old = std::exchange(it->second, id);
    Tell(scheduler_node, scheduler::GatewayLost{old});
  });
  Perform(node, n.gateway->OnScheduler(epoch, now()));
}

void World::Tell(int node, const scheduler::Event& event) {
  Node& n = At(node);
  if (!n.scheduler) return;
  Obey(node, n.scheduler->Handle(event, now()));
}

void World::Obey(int node, scheduler::Actions actions) {
  for (const scheduler::Action& action : actions) {
    if (const auto* placement = std::get_if<wire::Placement>(&action)) {
      const auto gateway = gateway_nodes_.find(placement->gateway);
      if (gateway == gateway_nodes_.end()) continue;
      wire::Placement sent = *placement;
      if (Has(PlantedBug::kPausedLeaderRules)) sent.epoch = epoch_;
      const int to = gateway->second;
      network_->Send(node, to, [this, to, node, life = At(node).life, sent] {
        OnPlacement(to, node, life, sent);
      });
    } else if (const auto* refuse = std::get_if<scheduler::Refuse>(&action)) {
      const auto gateway = gateway_nodes_.find(refuse->gateway);
      if (gateway == gateway_nodes_.end()) continue;
      const int to = gateway->second;
      const Status status = refuse->retry_after == Duration(0) ? InvalidArgument(refuse->reason)
                                                               : ResourceExhausted(refuse->reason);
      network_->Send(node, to, [this, to, id = refuse->sequence, status] {
        Perform(to, At(to).gateway->OnRefused(id, status, now()));
      });
    } else if (const auto* prefetch = std::get_if<scheduler::Prefetch>(&action)) {
      const auto gateway = gateway_nodes_.find(prefetch->gateway);
      if (gateway == gateway_nodes_.end()) continue;
      const int to = gateway->second;
      network_->Send(node, to, [this, to, hint = *prefetch] { PassOn(to, hint); });
    }
    // Advice about scaling is not part of this world.
  }
}

// --- Runners

void World::OnStart(int node, int gateway_node, delivery::ConnectionId connection,
                    delivery::StartAttempt start) {
  Node& n = At(node);
  const Epoch told = n.told_epoch;
  const Epoch epoch = start.epoch;
  if (Has(PlantedBug::kStaleEpochAccepted)) start.epoch = std::max(epoch, n.end->epoch());
  const auto result = n.end->OnStart(start, connection);
  if (result.verdict != delivery::StartVerdict::kAccepted) {
    ++num_refused_starts_;
    if (result.verdict == delivery::StartVerdict::kStaleAttempt) return;
    const delivery::AttemptRefused refused = {start.request.sequence, start.request.attempt};
    network_->Send(node, gateway_node, [this, gateway_node, refused, id = n.runner_id] {
      Perform(gateway_node, At(gateway_node).gateway->OnAttemptRefused(id, refused, now()));
    });
    return;
  }
  if (epoch < told) {
    checker_.Violate(now(),
                     StrCat("runner ", n.runner_id, " obeyed epoch ", epoch, " after ", told));
  }
  n.told_epoch = std::max(told, epoch);
  for (const delivery::ReleaseAttempt& old : result.superseded) n.model->Remove(old.sequence);
  n.model->Add(start);
  BeginStep(node);
}

void World::BeginStep(int node) {
  Node& n = At(node);
  if (n.is_stepping || n.model->num_sequences() == 0) return;
  const std::optional<Duration> step = n.model->BeginStep(now());
  num_evictions_ += n.model->num_evictions() - n.model_evictions;
  n.model_evictions = n.model->num_evictions();
  const std::optional<TimePoint> ready = n.model->next_ready();
  if (!step && !ready) return;
  n.is_stepping = true;
  loop_.At(step ? now() + *step : *ready,
           [this, node, life = n.life] { RunLife(node, life, [this, node] { EndStep(node); }); });
}

void World::EndStep(int node) {
  Node& n = At(node);
  n.is_stepping = false;
  std::map<int, std::vector<wire::TokenEvent>> by_gateway;
  std::unordered_map<SequenceId, GatewayId> owners;
  bool has_ended = false;
  for (wire::TokenEvent& event : n.model->EndStep(now())) {
    checker_.OnSent(event, now());
    const delivery::RunnerEnd::Attempt* const attempt = n.end->Find(event.sequence);
    CHECK(attempt != nullptr);
    const int gateway = gateway_nodes_.at(attempt->gateway);
    if (!n.model->Has(event.sequence)) {
      n.end->OnFinished({event.sequence, event.attempt});
      has_ended = true;
    }
    by_gateway[gateway].push_back(std::move(event));
  }
  for (auto& [gateway, events] : by_gateway) {
    network_->Send(node, gateway,
                   [this, to = gateway, id = n.runner_id, batch = std::move(events)] {
                     OnTokens(to, id, batch);
                   });
  }
  Report(node, has_ended);
  BeginStep(node);
}

// At most one in min_report_interval; what comes sooner waits for that.
void World::Report(int node, bool at_once) {
  Node& n = At(node);
  if (n.leader < 0) return;
  const TimePoint due = n.last_report + options_.min_report_interval;
  if (!at_once && now() < due) return;
  n.last_report = now();
  wire::RunnerReport report = n.model->Report();
  report.runner = n.runner_id;
  report.number = ++n.report_number;
  ToLeader(node, report);
}

}  // namespace aril::simulate

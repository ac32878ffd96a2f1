// What can go wrong in a World, and what must be true when all of it is over.

#include <algorithm>

#include "base/strings.h"
#include "simulate/world.h"

namespace aril::simulate {
namespace {

using std::chrono::seconds;

// How long the consequences of a fault may take: reconnecting, greeting, submitting again.
constexpr Duration kAftermath = seconds(6);

}  // namespace

void World::Disturb(int node, Duration length) {
  Node& n = At(node);
  n.disturbed_until = std::max(n.disturbed_until, now() + length + kAftermath);
}

void World::Kill(int node, Duration down_for) {
  Node& n = At(node);
  if (!n.is_alive) return;
  Disturb(node, down_for);
  n.is_alive = false;
  ++n.life;
  n.paused_until = TimePoint();
  n.deferred.clear();
  n.scheduler.reset();
  if (n.kind == Kind::kGateway) {
    // Its clients' connections break: they see it, and try again elsewhere.
    for (const auto& [id, stream] : checker_.streams()) {
      if (stream.gateway_node == node) checker_.OnEnd(id, StreamEnd::kBroken, now());
    }
    const TimePoint killed = now();
    loop_.After(kReleaseLimit, [this, node, killed] {
      for (int r = RunnerNode(0); r < num_nodes(); ++r) {
        if (At(r).disturbed_until > killed) continue;
        for (const wire::RunnerSequence& sequence : At(r).model->Report().sequences) {
          const ClientStream& stream = checker_.streams().at(sequence.sequence);
          if (stream.gateway_node != node || stream.opened > killed) continue;
          checker_.Violate(now(),
                           StrCat("sequence ", sequence.sequence, " of a dead gateway still runs"));
        }
      }
    });
  }
  network_->BreakAll(node, now() + down_for);
  loop_.After(down_for, [this, node] { Boot(node); });
}

void World::Pause(int node, Duration pause) {
  Node& n = At(node);
  if (!n.is_alive) return;
  Disturb(node, pause);
  n.paused_until = std::max(n.paused_until, now() + pause);
  loop_.At(n.paused_until, [this, node, life = n.life] { Resume(node, life); });
  if (pause <= options_.keep_alive) return;
  loop_.After(options_.keep_alive, [this, node, life = n.life, until = n.paused_until] {
    if (At(node).life == life) network_->BreakAll(node, until);
  });
}

void World::PauseLeader(int gateway_index, Duration beyond_lease) {
  if (leader_ < 0) return;
  const Duration pause = options_.lease + beyond_lease;
  const int gateway = GatewayNode(gateway_index);
  Disturb(gateway, pause);
  for (int s = 0; s < options_.num_schedulers; ++s) {
    if (s != leader_) network_->Break(s, gateway, now() + pause + seconds(2));
  }
  Pause(leader_, pause);
}

void World::Partition(const std::vector<int>& nodes, Duration length) {
  for (const int a : nodes) {
    Disturb(a, length);
    for (int b = 0; b < num_nodes(); ++b) {
      const bool is_inside = std::find(nodes.begin(), nodes.end(), b) != nodes.end();
      if (!is_inside && At(a).kind != At(b).kind) network_->Break(a, b, now() + length);
    }
  }
}

void World::BreakConnection(int a, int b) {
  Disturb(a, seconds(1));
  Disturb(b, seconds(1));
  network_->Break(a, b, now());
}

void World::LoseInFlight(int a, int b) {
  Disturb(a, seconds(1));
  Disturb(b, seconds(1));
  network_->LoseInFlight(a, b);
}

void World::Slow(int a, int b, Duration extra, Duration length) {
  Disturb(a, length + extra);
  Disturb(b, length + extra);
  network_->Slow(a, b, extra, now() + length);
}

void World::Duplicate(int a, int b, Duration length) {
  Disturb(a, length);
  Disturb(b, length);
  network_->Duplicate(a, b, now() + length);
}

void World::SlowStore(int node, int64_t factor, Duration length) {
  if (!At(node).is_alive) return;
  At(node).model->SetLoadSlowness(factor);
  loop_.After(length, [this, node] {
    if (At(node).is_alive) At(node).model->SetLoadSlowness(1);
  });
}

void World::StopEtcd(Duration length) {
  etcd_down_until_ = std::max(etcd_down_until_, now() + length);
  // Leases live on when it comes back, as etcd extends them.
  lease_until_ = std::max(lease_until_, etcd_down_until_ + options_.lease);
}

void World::CheckQuiescent() {
  if (!checker_.violation().empty()) return;
  for (const auto& [id, stream] : checker_.streams()) {
    if (stream.end != StreamEnd::kLive) continue;
    return checker_.Violate(
        now(), StrCat("sequence ", id, " has not ended: it has ", stream.num_tokens, " of ",
                      stream.max_tokens, " tokens, in attempt ", stream.attempt));
  }
  for (const Node& n : nodes_) {
    if (n.kind == Kind::kRunner && n.model->num_sequences() > 0) {
      return checker_.Violate(now(), StrCat("runner ", n.runner_id, " still runs ",
                                            n.model->num_sequences(), " sequences"));
    }
    if (n.kind == Kind::kGateway && n.gateway->num_live() > 0) {
      return checker_.Violate(now(), StrCat("gateway ", n.gateway_id, " still has ",
                                            n.gateway->num_live(), " sequences"));
    }
  }
  const scheduler::Scheduler* const leader = Leader();
  if (leader == nullptr) return checker_.Violate(now(), "nobody leads");
  if (leader->num_sequences() > 0) {
    checker_.Violate(now(),
                     StrCat("the scheduler still has ", leader->num_sequences(), " sequences"));
  }
  for (const Node& n : nodes_) {
    if (n.kind != Kind::kRunner) continue;
    if (!leader->runners().Has(n.runner_id)) {
      return checker_.Violate(now(), StrCat("the scheduler does not know runner ", n.runner_id));
    }
    const scheduler::RunnerLoad& load = leader->runners().Get(n.runner_id);
    if (load.num_sequences != 0 || load.promised_pages != 0 || !load.is_accepting ||
        load.available_pages() != options_.runner.pages_total) {
      return checker_.Violate(
          now(), StrCat("the scheduler believes that runner ", n.runner_id, " has ",
                        load.num_sequences, " sequences and ", load.available_pages(),
                        " available pages, and is ", load.is_accepting ? "open" : "closed"));
    }
  }
}

}  // namespace aril::simulate

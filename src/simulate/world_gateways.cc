// What the gateways of a World do: for clients, for their schedulers, and with their runners.

#include <utility>
#include <vector>

#include "base/strings.h"
#include "simulate/world.h"

namespace aril::simulate {

using std::chrono::milliseconds;

namespace {

std::vector<wire::PrefixMark> MarkPrompt(const wire::SequenceRequest& request) {
  std::vector<AdapterFrom> adapters;
  for (const AdapterUse& use : request.adapters) adapters.push_back({.use = use});
  return wire::MarkPrefixes(adapters, request.prompt);
}

}  // namespace

void World::Open(int gateway_index, const WorldRequest& request) {
  const int node = GatewayNode(gateway_index);
  wire::SequenceRequest sequence;
  sequence.sequence = request.sequence;
  sequence.tenant = request.tenant;
  sequence.adapters = MixOf(request.adapter);
  sequence.prompt.assign(static_cast<size_t>(request.num_prompt), 7);
  for (size_t i = 0; i < sequence.prompt.size() && !request.blocks.empty(); ++i) {
    const size_t block = i / static_cast<size_t>(kBlockTokens);
    if (block < request.blocks.size()) sequence.prompt[i] = request.blocks[block];
  }
  sequence.max_tokens = static_cast<int32_t>(request.num_output);
  sequence.arrival = now();
  checker_.OnOpen(sequence, request.adapter_pages, node, now());
  if (!At(node).is_alive) return checker_.OnEnd(request.sequence, StreamEnd::kBroken, now());
  delivery::SequenceCosts costs = {.adapter_pages = request.adapter_pages};
  if (!request.blocks.empty()) costs.prefix = MarkPrompt(sequence);
  Run(node, [this, node, sequence, costs = std::move(costs)] {
    auto effects = At(node).gateway->Open(sequence, costs, now());
    if (!effects.ok()) return checker_.OnEnd(sequence.sequence, StreamEnd::kError, now());
    Perform(node, *effects);
  });
}

void World::Cancel(SequenceId sequence) {
  const auto found = checker_.streams().find(sequence);
  if (found == checker_.streams().end() || found->second.end != StreamEnd::kLive) return;
  const int node = found->second.gateway_node;
  Run(node, [this, node, sequence] {
    if (checker_.streams().at(sequence).end != StreamEnd::kLive) return;
    if (Has(PlantedBug::kDroppedCancel)) undropped_.insert(sequence);
    checker_.OnEnd(sequence, StreamEnd::kCancelled, now());
    Perform(node, At(node).gateway->Cancel(sequence));
    const TimePoint cancelled = now();
    loop_.After(kReleaseLimit, [this, node, sequence, cancelled] {
      if (At(node).disturbed_until > cancelled) return;
      for (int r = RunnerNode(0); r < num_nodes(); ++r) {
        if (At(r).disturbed_until > cancelled || !At(r).model->Has(sequence)) continue;
        checker_.Violate(now(), StrCat("sequence ", sequence, " was cancelled and still runs"));
      }
    });
  });
}

void World::ToLeader(int node, const scheduler::Event& event) {
  const int leader = At(node).leader;
  if (leader < 0) return;
  network_->Send(node, leader, [this, leader, event] { Tell(leader, event); });
}

void World::Perform(int node, const delivery::Effects& effects, uint32_t sent_attempt) {
  for (const delivery::Effect& effect : effects) {
    if (const auto* submission = std::get_if<wire::Submission>(&effect)) {
      if (Has(PlantedBug::kLostResubmission) && submission->attempt > 0) continue;
      ToLeader(node, *submission);
    } else if (const auto* close = std::get_if<delivery::CloseSequence>(&effect)) {
      ToLeader(node, scheduler::SequenceClosed{close->sequence});
    } else if (const auto* start = std::get_if<delivery::StartOn>(&effect)) {
      Start(node, *start);
    } else if (const auto* release = std::get_if<delivery::ReleaseOn>(&effect)) {
      Release(node, *release);
    } else if (const auto* deliver = std::get_if<delivery::Deliver>(&effect)) {
      checker_.OnDelivered(deliver->event, sent_attempt, now());
    }
  }
}

void World::Start(int node, const delivery::StartOn& start) {
  delivery::StartAttempt sent = start.start;
  if (Has(PlantedBug::kPromptOnlyResubmitted)) sent.output.clear();
  checker_.OnStart(sent, start.runner, now());
  const auto at = runner_nodes_.find(start.runner);
  const int runner = at == runner_nodes_.end() ? -1 : at->second;
  const auto connected = At(node).runners.find(runner);
  if (connected == At(node).runners.end() || connected->second != start.runner) {
    // A runner that this gateway has no connection to.
    loop_.After(milliseconds(1), [this, node, life = At(node).life, id = start.runner] {
      RunLife(node, life,
              [this, node, id] { Perform(node, At(node).gateway->OnRunnerBroken(id, now())); });
    });
    return;
  }
  network_->Send(node, runner, [this, node, runner, sent, id = network_->Connection(node, runner)] {
    OnStart(runner, node, id, sent);
  });
}

void World::Release(int node, const delivery::ReleaseOn& release) {
  if (undropped_.contains(release.release.sequence)) return;
  const auto at = runner_nodes_.find(release.runner);
  if (at == runner_nodes_.end()) return;
  const int runner = at->second;
  network_->Send(node, runner, [this, runner, id = release.runner, what = release.release] {
    Node& n = At(runner);
    if (n.runner_id != id || Has(PlantedBug::kReleaseIgnored)) return;
    if (n.end->OnRelease(what)) n.model->Remove(what.sequence);
    Report(runner, false);
  });
}

void World::OnPlacement(int node, int sender, int64_t sender_life,
                        const wire::Placement& placement) {
  Node& n = At(node);
  if (placement.gateway != n.gateway_id) return;  // an earlier life's
  const delivery::Effects effects = n.gateway->OnPlacement(placement, now());
  for (const delivery::Effect& effect : effects) {
    if (!std::holds_alternative<delivery::StartOn>(effect)) continue;
    if (placement.epoch < n.told_epoch) {
      checker_.Violate(now(),
                       StrCat("a gateway obeyed epoch ", placement.epoch, " after ", n.told_epoch));
    }
    if (reigns_.at(placement.epoch) != std::pair(sender, sender_life)) {
      checker_.Violate(
          now(), StrCat("a scheduler ruled under epoch ", placement.epoch, ", which is another's"));
    }
  }
  n.told_epoch = std::max(n.told_epoch, placement.epoch);
  Perform(node, effects);
}

void World::PassOn(int node, const scheduler::Prefetch& hint) {
  const ClientStream& stream = checker_.streams().at(hint.sequence);
  const auto at = runner_nodes_.find(hint.runner);
  if (stream.gateway_node != node || stream.end != StreamEnd::kLive || at == runner_nodes_.end()) {
    return;
  }
  const int runner = at->second;
  network_->Send(
      node, runner,
      [this, runner, id = hint.runner, adapter = stream.adapter, pages = stream.adapter_pages] {
        if (At(runner).runner_id != id) return;
        num_loaded_ahead_ += At(runner).model->LoadAhead(adapter, pages, now()) ? 1 : 0;
      });
}

// What the planted bugs make of a message before the gateway's end sees it.
wire::TokenEvent World::Distort(const wire::TokenEvent& event) {
  wire::TokenEvent seen = event;
  const ClientStream& stream = checker_.streams().at(event.sequence);
  const auto next = static_cast<int32_t>(stream.num_tokens);
  if (Has(PlantedBug::kStaleAttemptAccepted)) seen.attempt = stream.attempt;
  if (seen.attempt != stream.attempt) return seen;
  if (Has(PlantedBug::kGapsClosed) && seen.index > next) seen.index = next;
  if (Has(PlantedBug::kDuplicatesRenumbered) && seen.index < next) seen.index = next;
  return seen;
}

void World::OnTokens(int node, RunnerId runner, const std::vector<wire::TokenEvent>& events) {
  for (const wire::TokenEvent& event : events) {
    const wire::TokenEvent seen = options_.bug == PlantedBug::kNone ? event : Distort(event);
    const bool is_stale_accepted = Has(PlantedBug::kStaleAttemptAccepted);
    const RunnerId from = is_stale_accepted ? checker_.streams().at(event.sequence).runner : runner;
    Perform(node, At(node).gateway->OnToken(from, seen, now()), event.attempt);
  }
}

}  // namespace aril::simulate

#include "simulate/chaos.h"

#include <array>
#include <utility>
#include <vector>

#include "base/mix64.h"
#include "simulate/world.h"

namespace aril::simulate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTrouble = seconds(40);
// Requests go on after it. In quiet, everything that is released must be so in time; a gateway
// dies then, too.
constexpr Duration kLastArrival = seconds(70);
constexpr Duration kLastKill = seconds(66);
// Longer than any limit on silence, attempt after attempt; most are through much sooner.
constexpr Duration kCalm = seconds(260);
constexpr Duration kLook = seconds(5);
// What the scheduler remembers of lost runners has gone by then.
constexpr Duration kForgotten = seconds(40);
constexpr size_t kMaxWaiting = 40;
constexpr std::array<const char*, 2> kTenants = {"a", "b"};

constexpr const char* kFaultNames[kNumFaultKinds] = {
    "kill scheduler", "kill gateway",       "kill runner",      "pause scheduler", "pause gateway",
    "pause runner",   "partition",          "break connection", "lose in flight",  "delay",
    "duplicate",      "slow adapter store", "etcd outage"};

WorldOptions DrawOptions(uint64_t seed, PlantedBug bug, SimRandom& random) {
  WorldOptions options;
  options.seed = Mix64(seed, 1);
  options.bug = bug;
  options.num_runners = static_cast<int>(random.Int(3, 5));
  options.runner.max_running = random.Int(4, 10);
  options.runner.max_rows = random.Int(32, 128);
  // Small, so that pages run out.
  options.runner.pages_total = random.Int(36, 60);
  options.runner.page_tokens = 8;
  options.runner.page_bytes = 4 << 20;
  options.runner.caches_prefixes = random.Chance(0.5);
  options.runner.steps.base = 0.03;  // some sequences last for seconds
  options.runner.steps.load_latency = 0.02;
  options.max_runner_live = 64;
  options.scheduler.pages.page_tokens = 8;
  options.scheduler.flat_batch = random.Int(0, 1) * (options.runner.max_running - 1);
  options.scheduler.drain_margin = 2;
  options.scheduler.min_active = seconds(2);
  options.gateway.silence_limit = seconds(20);
  options.gateway.max_live = 400;
  const int64_t fairness = random.Int(0, 1), order = random.Int(0, 2);
  options.max_waiting =
      scheduler::FixedBound::MostWaiting(kMaxWaiting, fairness == 1 ? kTenants.size() : 1);
  if (fairness == 1) {
    options.scheduler.spare_seats = random.Int(0, 3);
    options.scheduler.max_tenant_prompts = random.Int(1, 6);
    if (random.Chance(0.5)) options.scheduler.max_tenant_backlog_tokens = random.Int(16, 200);
  }
  options.policies = [fairness, order] {
    scheduler::Policies policies;
    policies.bound = std::make_unique<scheduler::FixedBound>(kMaxWaiting);
    if (fairness == 1)
      policies.tenants = std::make_unique<scheduler::FairShare>(scheduler::FairShareOptions{});
    if (order == 1) policies.order = std::make_unique<scheduler::NewestWhenOverloaded>();
    if (order == 2) policies.preferred_adapters = {.number = 3, .pool_share = 0.2};
    return policies;
  };
  return options;
}

class Chaos {
 public:
  Chaos(uint64_t seed, PlantedBug bug)
      : random_(seed), options_(DrawOptions(seed, bug, random_)), world_(options_) {
    result_.seed = seed;
  }

  ChaosResult Run() {
    DrawRequests();
    DrawFaults();
    world_.RunUntil(TimePoint(kLastArrival));
    for (Duration calm{}; calm < kCalm && world_.checker().num_live() > 0; calm += kLook) {
      world_.RunUntil(TimePoint(kLastArrival + calm));
    }
    world_.RunUntil(world_.loop().now() + kForgotten);
    world_.CheckQuiescent();
    const StreamChecker& checker = world_.checker();
    result_.violation = checker.violation();
    result_.digest = checker.digest();
    result_.num_finished = checker.Count(StreamEnd::kFinished);
    result_.num_errors = checker.Count(StreamEnd::kError);
    result_.num_cancelled = checker.Count(StreamEnd::kCancelled);
    result_.num_broken = checker.Count(StreamEnd::kBroken);
    result_.num_events = world_.loop().num_events();
    result_.num_evictions = world_.num_evictions();
    result_.num_loaded_ahead = world_.num_loaded_ahead();
    result_.num_refused_starts = world_.num_refused_starts();
    result_.num_elections = world_.num_elections();
    for (const auto& [id, stream] : checker.streams()) result_.num_resumed += stream.attempt > 1;
    return result_;
  }

 private:
  // Steady, but for a burst that the queue cannot hold.
  void DrawRequests() {
    result_.num_requests = random_.Int(200, 300);
    const TimePoint burst{random_.Time(seconds(5), seconds(30))};
    for (int64_t id = 1; id <= result_.num_requests; ++id) {
      const bool is_burst = id % 2 == 0;
      const TimePoint at = is_burst ? burst + random_.Time(Duration(0), milliseconds(100))
                                    : TimePoint(random_.Time(seconds(1), kLastArrival));
      WorldRequest request;
      request.sequence = SequenceId(id);
      request.tenant = kTenants[random_.Chance(0.7) ? 0 : 1];
      request.adapter = AdapterId(static_cast<int32_t>(random_.Int(-1, 6)));
      request.adapter_pages = request.adapter == kBaseModel ? 0 : 1 + request.adapter.value() % 4;
      request.num_prompt = random_.Int(1, 60);
      request.num_output = random_.Int(1, 120);
      if (options_.runner.caches_prefixes && random_.Chance(0.5)) {
        // Of one of some conversations, long enough to have a mark.
        request.num_prompt = random_.Int(64, 128);
        request.num_output = random_.Int(1, 60);
        request.blocks = {static_cast<int32_t>(random_.Int(1, 4))};
      }
      const int gateway = static_cast<int>(random_.Int(0, options_.num_gateways - 1));
      world_.loop().At(at, [this, gateway, request] { world_.Open(gateway, request); });
      if (random_.Chance(0.15)) {
        world_.loop().At(at + random_.Time(Duration(0), seconds(4)),
                         [this, id] { world_.Cancel(SequenceId(id)); });
      }
    }
  }

  void DrawFaults() {
    const int64_t num_faults = random_.Int(20, 30);
    for (int64_t i = 0; i < num_faults; ++i) {
      const auto kind = static_cast<FaultKind>(random_.Int(0, kNumFaultKinds - 1));
      ++result_.faults[static_cast<size_t>(kind)];
      world_.loop().At(TimePoint(random_.Time(seconds(1), kTrouble)),
                       [this, kind] { Strike(kind); });
    }
    ++result_.faults[static_cast<size_t>(FaultKind::kKillGateway)];
    world_.loop().At(TimePoint(kLastKill), [this] { Strike(FaultKind::kKillGateway); });
  }

  int AnyScheduler() {
    return world_.SchedulerNode(static_cast<int>(random_.Int(0, options_.num_schedulers - 1)));
  }
  int AnyGateway() {
    return world_.GatewayNode(static_cast<int>(random_.Int(0, options_.num_gateways - 1)));
  }
  int AnyRunner() {
    return world_.RunnerNode(static_cast<int>(random_.Int(0, options_.num_runners - 1)));
  }
  // Two nodes that have a connection.
  std::pair<int, int> AnyPair() {
    switch (random_.Int(0, 3)) {
      case 0:
        return {AnyScheduler(), AnyGateway()};
      case 1:
        return {AnyScheduler(), AnyRunner()};
      default:
        return {AnyGateway(), AnyRunner()};
    }
  }
  // Of a connection that carries tokens, and slowly, so that there is something to lose.
  void LoseMuch() {
    const int gateway = AnyGateway(), runner = AnyRunner();
    const Duration length = seconds(1);
    world_.Slow(gateway, runner, random_.Time(milliseconds(50), milliseconds(900)), length);
    world_.loop().After(length, [this, gateway, runner] { world_.LoseInFlight(gateway, runner); });
  }
  // Shorter and longer than leases and keep-alives.
  Duration AnyPause() { return random_.Time(milliseconds(50), seconds(9)); }

  void Strike(FaultKind kind) {
    const auto [a, b] = AnyPair();
    switch (kind) {
      case FaultKind::kKillScheduler:
        return world_.Kill(AnyScheduler(), AnyPause());
      case FaultKind::kKillGateway:
        return world_.Kill(AnyGateway(), AnyPause());
      case FaultKind::kKillRunner:
        return world_.Kill(AnyRunner(), AnyPause());
      case FaultKind::kPauseScheduler:
        if (random_.Chance(0.5)) return world_.Pause(AnyScheduler(), AnyPause());
        return world_.PauseLeader(static_cast<int>(random_.Int(0, options_.num_gateways - 1)),
                                  random_.Time(milliseconds(700), milliseconds(1900)));
      case FaultKind::kPauseGateway:
        return world_.Pause(AnyGateway(), AnyPause());
      case FaultKind::kPauseRunner:
        return world_.Pause(AnyRunner(), AnyPause());
      case FaultKind::kPartition:
        return world_.Partition({a, b}, AnyPause());
      case FaultKind::kBreakConnection:
        return world_.BreakConnection(a, b);
      case FaultKind::kLoseInFlight:
        return LoseMuch();
      case FaultKind::kDelay:
        return world_.Slow(a, b, random_.Time(milliseconds(10), seconds(3)), AnyPause());
      case FaultKind::kDuplicate:
        return world_.Duplicate(a, b, AnyPause());
      case FaultKind::kSlowStore:
        return world_.SlowStore(AnyRunner(), random_.Int(10, 200), AnyPause());
      case FaultKind::kEtcdOutage:
        return world_.StopEtcd(AnyPause());
    }
  }

  SimRandom random_;
  const WorldOptions options_;
  World world_;
  ChaosResult result_;
};

}  // namespace

std::string Name(FaultKind kind) { return kFaultNames[static_cast<size_t>(kind)]; }

int64_t ChaosResult::num_faults() const {
  int64_t sum = 0;
  for (const int64_t count : faults) sum += count;
  return sum;
}

void ChaosResult::Add(const ChaosResult& other) {
  for (int64_t ChaosResult::*member :
       {&ChaosResult::num_requests, &ChaosResult::num_finished, &ChaosResult::num_errors,
        &ChaosResult::num_cancelled, &ChaosResult::num_broken, &ChaosResult::num_events,
        &ChaosResult::num_evictions, &ChaosResult::num_refused_starts, &ChaosResult::num_elections,
        &ChaosResult::num_resumed, &ChaosResult::num_loaded_ahead}) {
    this->*member += other.*member;
  }
  for (size_t i = 0; i < kNumFaultKinds; ++i) faults[i] += other.faults[i];
}

Json ChaosResult::ToJson() const {
  Json::Object by_kind;
  for (size_t i = 0; i < kNumFaultKinds; ++i) {
    by_kind.emplace_back(Name(static_cast<FaultKind>(i)), faults[i]);
  }
  return Json::Object{{"requests", num_requests},
                      {"finished", num_finished},
                      {"errors", num_errors},
                      {"cancelled", num_cancelled},
                      {"broken", num_broken},
                      {"resumed", num_resumed},
                      {"evictions", num_evictions},
                      {"loaded_ahead", num_loaded_ahead},
                      {"refused_starts", num_refused_starts},
                      {"elections", num_elections},
                      {"events", num_events},
                      {"faults", Json(std::move(by_kind))}};
}

ChaosResult RunChaos(uint64_t seed, PlantedBug bug) { return Chaos(seed, bug).Run(); }

}  // namespace aril::simulate

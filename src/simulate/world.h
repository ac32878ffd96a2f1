// A cluster on virtual time: the real state machines of gateways, schedulers and runners' ends,
// with a model of the engine behind the latter, joined by a simulated network and a model of etcd's
// election. One seed decides everything.
//
// The node's functions are the shells that a process has around the same machines: they carry
// messages, keep timers, and decide nothing.

#ifndef ARIL_SIMULATE_WORLD_H_
#define ARIL_SIMULATE_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "delivery/gateway_end.h"
#include "delivery/runner_end.h"
#include "scheduler/scheduler.h"
#include "simulate/event_loop.h"
#include "simulate/network.h"
#include "simulate/planted_bug.h"
#include "simulate/random.h"
#include "simulate/runner_model.h"
#include "simulate/stream_checker.h"

namespace aril::simulate {

struct WorldOptions {
  int num_schedulers = 2;
  int num_gateways = 2;
  int num_runners = 4;
  RunnerModelOptions runner;
  size_t max_runner_live = 256;
  scheduler::SchedulerOptions scheduler;
  std::function<scheduler::Policies()> policies;
  size_t max_waiting = 100;  // what the policies bound the queue to; checked
  delivery::GatewayEndOptions gateway;
  Duration lease = std::chrono::seconds(3);
  Duration keep_alive = std::chrono::seconds(5);
  Duration min_report_interval = std::chrono::milliseconds(20);
  PlantedBug bug = PlantedBug::kNone;
  bool checks_every_event = true;
  uint64_t seed = 1;
};

struct WorldRequest {
  SequenceId sequence;
  std::string tenant = "default";
  AdapterId adapter;
  int64_t adapter_pages = 0;
  int64_t num_prompt = 1;
  int64_t num_output = 1;
  // Of the prompt, each of kBlockTokens: equal numbers are equal tokens. Empty: nothing is said of
  // what it begins with.
  std::vector<int32_t> blocks = {};
};

// As Mooncake's traces have them.
inline constexpr int64_t kBlockTokens = 512;

// Not thread-safe.
class World {
 public:
  explicit World(const WorldOptions& options);

  EventLoop& loop() { return loop_; }
  SimRandom& random() { return random_; }
  StreamChecker& checker() { return checker_; }
  const StreamChecker& checker() const { return checker_; }

  // Nodes: schedulers, then gateways, then runners.
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  int SchedulerNode(int i) const { return i; }
  int GatewayNode(int i) const { return options_.num_schedulers + i; }
  int RunnerNode(int i) const { return options_.num_schedulers + options_.num_gateways + i; }

  // A client's deeds. Opening fails visibly when the gateway is down.
  void Open(int gateway_index, const WorldRequest& request);
  void Cancel(SequenceId sequence);

  // Faults, from now on.
  void Kill(int node, Duration down_for);
  void Pause(int node, Duration pause);
  void Partition(const std::vector<int>& nodes, Duration length);  // from all others
  void BreakConnection(int a, int b);
  void LoseInFlight(int a, int b);
  void Slow(int a, int b, Duration extra, Duration length);
  void Duplicate(int a, int b, Duration length);
  // Pauses the leader past its lease but not so long that connections break, while the next leader
  // cannot reach one gateway: an old leader at work.
  void PauseLeader(int gateway_index, Duration beyond_lease);
  void SlowStore(int node, int64_t factor, Duration length);
  void StopEtcd(Duration length);

  // Runs until `end`, or a violation.
  void RunUntil(TimePoint end);
  // After the last fault and enough time: everything has ended and been given back.
  void CheckQuiescent();

  const RunnerModel* Model(int runner_index) const {
    return At(RunnerNode(runner_index)).model.get();
  }
  // The present leader's; nullptr: none.
  const scheduler::Scheduler* Leader() const;
  int64_t num_evictions() const { return num_evictions_; }
  int64_t num_loaded_ahead() const { return num_loaded_ahead_; }  // adapters, upon hints
  int64_t num_refused_starts() const { return num_refused_starts_; }
  int64_t num_elections() const { return epoch_.value(); }

 private:
  enum class Kind { kScheduler, kGateway, kRunner };
  struct Node {
    Kind kind = Kind::kScheduler;
    bool is_alive = true;
    int64_t life = 0;
    TimePoint paused_until;
    std::deque<std::function<void()>> deferred;  // while paused, in order
    TimePoint disturbed_until;                   // by faults, and their consequences
    int leader = -1;                             // gateways and runners: the scheduler's node
    Epoch told_epoch;  // the highest that it has been told, for the checker
    // Scheduler
    std::unique_ptr<scheduler::Scheduler> scheduler;  // while it believes to lead
    std::map<int, GatewayId> gateways;                // greeted under this reign
    // Gateway
    GatewayId gateway_id;
    std::unique_ptr<delivery::GatewayEnd> gateway;
    std::map<int, RunnerId> runners;  // connected, by node
    // Runner
    RunnerId runner_id;
    std::unique_ptr<delivery::RunnerEnd> end;
    std::unique_ptr<RunnerModel> model;
    bool is_stepping = false;
    int64_t report_number = 0;
    TimePoint last_report;
    int64_t model_evictions = 0;
  };

  Node& At(int node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& At(int node) const { return nodes_[static_cast<size_t>(node)]; }
  TimePoint now() const { return loop_.now(); }
  bool Has(PlantedBug bug) const { return options_.bug == bug; }

  // By then, what nobody wants any more must have gone from the runners.
  static constexpr Duration kReleaseLimit = std::chrono::seconds(2);

  void Boot(int node);
  void Run(int node, const std::function<void()>& callback);
  void RunLife(int node, int64_t life, const std::function<void()>& callback);
  void Resume(int node, int64_t life);
  void Every(int node, Duration interval, const std::function<void()>& callback);
  void Disturb(int node, Duration length);
  void Audit(int node);
  void OnConnected(int node, int peer, delivery::ConnectionId connection);
  void OnBroken(int node, int peer, delivery::ConnectionId connection);

  // Scheduler
  void Campaign(int node);
  void Rule(int node);
  void Greet(int node, int peer);
  void Tell(int node, const scheduler::Event& event);
  void Obey(int node, scheduler::Actions actions);

  // Gateway
  void OnGreeted(int node, int scheduler_node, Epoch epoch);
  void Perform(int node, const delivery::Effects& effects, uint32_t sent_attempt = 0);
  void Start(int node, const delivery::StartOn& start);
  void Release(int node, const delivery::ReleaseOn& release);
  void ToLeader(int node, const scheduler::Event& event);
  void PassOn(int node, const scheduler::Prefetch& hint);  // from a gateway
  void OnPlacement(int node, int sender, int64_t sender_life, const wire::Placement& placement);
  void OnTokens(int node, RunnerId runner, const std::vector<wire::TokenEvent>& events);
  wire::TokenEvent Distort(const wire::TokenEvent& event);

  // Runner
  void OnStart(int node, int gateway_node, delivery::ConnectionId connection,
               delivery::StartAttempt start);
  void BeginStep(int node);
  void EndStep(int node);
  void Report(int node, bool at_once);

  const WorldOptions options_;
  EventLoop loop_;
  SimRandom random_;
  StreamChecker checker_;
  std::vector<Node> nodes_;
  std::unique_ptr<Network> network_;
  std::map<RunnerId, int> runner_nodes_;
  std::map<GatewayId, int> gateway_nodes_;
  int32_t next_id_ = 1;
  // etcd
  Epoch epoch_{0};
  int leader_ = -1;
  int64_t leader_life_ = 0;
  TimePoint lease_until_;
  TimePoint etcd_down_until_;
  std::map<Epoch, std::pair<int, int64_t>> reigns_;
  std::set<SequenceId> undropped_;  // cancelled, and nobody told: a planted bug
  int64_t num_evictions_ = 0;
  int64_t num_loaded_ahead_ = 0;
  int64_t num_refused_starts_ = 0;
};

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_WORLD_H_

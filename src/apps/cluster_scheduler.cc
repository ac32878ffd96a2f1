// `aril scheduler`.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "apps/cluster_processes.h"
#include "apps/service_manager.h"
#include "apps/status_server.h"
#include "apps/termination.h"
#include "base/log.h"
#include "base/strings.h"
#include "cluster/election.h"
#include "cluster/etcd_store.h"
#include "cluster/grpc_links.h"
#include "cluster/node_loop.h"
#include "cluster/scheduler_node.h"
#include "gateway/scheduler_metrics.h"

namespace aril {
namespace {

using Lead = std::optional<Epoch>;

// Holds elections on a thread of its own: etcd may take its time to answer, or not answer at all.
class Candidate {
 public:
  // The first round tells that etcd is there.
  static StatusOr<std::unique_ptr<Candidate>> Create(const SchedulerProcessOptions& options,
                                                     const std::string& value) {
    ASSIGN_OR_RETURN(auto store, cluster::EtcdStore::Create(
                                     {.endpoints = options.etcd.members,
                                      .tls = options.etcd.tls,
                                      .allows_insecure = options.cluster.allows_insecure}));
    std::unique_ptr<Candidate> candidate(new Candidate(
        {.key = options.election_key, .value = value, .ttl_seconds = options.lease_seconds},
        std::move(store)));
    auto first = candidate->election_.Round();
    if (!first.ok()) {
      return Annotate(first.status(),
                      "--etcd: no election can be held; start etcd first, or start a single "
                      "scheduler without --etcd");
    }
    candidate->lead_ = *first;
    return candidate;
  }
  ~Candidate() { Stop(); }

  void Start(cluster::NodeLoop& loop, cluster::SchedulerNode& node) {
    Tell(loop, node);
    thread_ = std::thread([this, &loop, &node] { Run(loop, node); });
  }

  // Gives up the lead.
  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (!thread_.joinable()) return;
    thread_.join();
    election_.Resign();
  }

 private:
  Candidate(cluster::Election::Options options, std::unique_ptr<cluster::EtcdStore> store)
      // Three rounds within a lease: one may be lost.
      : interval_(std::chrono::milliseconds(options.ttl_seconds * 1000 / 3)),
        store_(std::move(store)),
        election_(std::move(options), *store_) {}

  void Run(cluster::NodeLoop& loop, cluster::SchedulerNode& node) {
    bool is_reachable = true;
    while (true) {
      {
        std::unique_lock lock(mutex_);
        if (wake_.wait_for(lock, interval_, [this] { return stopping_; })) return;
      }
      const auto round = election_.Round();
      if (round.ok() != std::exchange(is_reachable, round.ok())) {
        if (round.ok()) {
          LogInfo("etcd answers again");
        } else {
          LogWarning(StrCat("what is goes on without elections: ", Message(round.status())));
        }
      }
      if (!round.ok() || *round == lead_) continue;
      lead_ = *round;
      Tell(loop, node);
    }
  }

  void Tell(cluster::NodeLoop& loop, cluster::SchedulerNode& node) {
    loop.Post([&node, lead = lead_](TimePoint now) {
      lead ? node.Lead(*lead, now) : node.StepDown(now);
    });
  }

  const Duration interval_;
  const std::unique_ptr<cluster::EtcdStore> store_;
  cluster::Election election_;
  Lead lead_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

gateway::SchedulerCounts CountsOf(const cluster::SchedulerNode& node) {
  gateway::SchedulerCounts counts = {.leads = node.epoch().has_value(),
                                     .epoch = node.epoch().value_or(Epoch(0)).value(),
                                     .num_runners = static_cast<int64_t>(node.num_runners()),
                                     .num_gateways = static_cast<int64_t>(node.num_gateways())};
  const scheduler::Scheduler* const reign = node.reign();
  if (reign == nullptr) return counts;
  counts.num_waiting = static_cast<int64_t>(reign->num_waiting());
  counts.num_placed = static_cast<int64_t>(reign->num_sequences()) - counts.num_waiting;
  counts.placements = reign->stats().placements;
  counts.migrations = reign->stats().migrations;
  counts.refusals = reign->stats().refusals;
  counts.aborts = reign->stats().aborts;
  counts.prefix_placements = reign->stats().prefix_placements;
  counts.prefix_tokens = reign->stats().prefix_tokens;
  return counts;
}

}  // namespace

Status RunScheduler(const SchedulerProcessOptions& options, const Clock& clock) {
  Termination termination;
  ASSIGN_OR_RETURN(auto status_server, ListenForStatus(options.cluster));
  const cluster::Hello hello = MakeHello(cluster::Role::kScheduler);
  scheduler::SchedulerOptions scheduler_options = options.scheduler;
  std::random_device random;
  scheduler_options.prefix_secret = uint64_t{random()} << 32 | random();
  cluster::NodeLoop loop(clock);
  ASSIGN_OR_RETURN(const auto links,
                   cluster::GrpcLinks::Create(LinkOptions(options.cluster), loop, clock));
  cluster::SchedulerNode node(
      {.hello = hello,
       .scheduler = scheduler_options,
       .policies = [policies = options.policies] { return scheduler::MakePolicies(policies); },
       .is_alone = options.etcd.members.empty()},
      *links);
  std::unique_ptr<Candidate> candidate;
  if (options.etcd.members.empty()) {
    // Above those of its earlier lives.
    loop.Post(
        [&node, epoch = Epoch(clock.UnixSeconds())](TimePoint now) { node.Lead(epoch, now); });
  } else {
    ASSIGN_OR_RETURN(
        candidate, Candidate::Create(options, StrCat(options.cluster.listen, " ", hello.instance)));
    candidate->Start(loop, node);
  }
  loop.Start(node);
  if (status_server) {
    // One that does not lead is ready to.
    status_server->Serve([&](const std::function<void(ProcessStatus)>& tell) {
      loop.Post([&node, tell](TimePoint) {
        tell({OkStatus(), gateway::SchedulerMetricsText(CountsOf(node))});
      });
    });
  }
  LogInfo(StrCat("Listening on port ", links->port()));
  ServiceManager::FromEnvironment().Ready();
  termination.Wait();
  LogInfo("Shutting down.");
  candidate.reset();
  loop.Stop();
  status_server.reset();
  return OkStatus();
}

}  // namespace aril

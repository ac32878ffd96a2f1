// The shell around delivery::RunnerEnd and an engine in a runner's process: takes attempts from
// gateways, gives them their tokens, and reports to the scheduler.

#ifndef ARIL_CLUSTER_RUNNER_NODE_H_
#define ARIL_CLUSTER_RUNNER_NODE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "cluster/frames.h"
#include "cluster/links.h"
#include "cluster/peer.h"
#include "cluster/shared_adapters.h"
#include "delivery/runner_end.h"
#include "wire/ports.h"

namespace aril::cluster {

struct RunnerNodeOptions {
  Hello hello;                          // its own
  std::vector<std::string> schedulers;  // "HOST:PORT"
  size_t max_live = 1024;               // attempts, running or waiting
  Duration report_interval = std::chrono::milliseconds(200);
  // Reports of steps are no closer than this.
  Duration min_report_interval = std::chrono::milliseconds(20);
  Duration redial_after = std::chrono::milliseconds(500);
};

// Not thread-safe.
class RunnerNode final : public Node {
 public:
  // `links`, `engine` and `shared` must outlive it. The engine's statistics must list its
  // sequences. Without `shared`, attempts that need adapters of run time fail.
  RunnerNode(RunnerNodeOptions options, Links& links, wire::SequencePort& engine,
             SharedAdapterLoader* shared = nullptr);

  // What a step of the engine did.
  void OnStep(const wire::StepStats& stats, const std::vector<wire::TokenEvent>& events,
              TimePoint now);
  // The process is to end: takes nothing new, and has the scheduler move what runs.
  void Leave(TimePoint now);

  void OnAccepted(LinkId link, TimePoint now) override;
  void OnFrame(LinkId link, Frame frame, TimePoint now) override;
  void OnBroken(LinkId link, const Status& why, TimePoint now) override;
  void OnTick(TimePoint now) override;

  const delivery::RunnerEnd& end() const { return end_; }
  // Why gateways cannot begin anything here: no scheduler leads it, or it is leaving.
  Status Readiness() const;

 private:
  // What an engine's sequence is to the cluster. The engine has ids of its own: an attempt may
  // begin while the one before it is still being cancelled.
  struct Running {
    SequenceId sequence;
    uint32_t attempt = 0;
    GatewayId gateway;
    LinkId link;
    AdapterId adapter;  // the cluster's
    int64_t adapter_pages = 0;
    int32_t num_at_start = 0;  // tokens
    wire::SequenceState state;
    int32_t priority = 0;
    TimePoint arrival;
    std::vector<std::shared_ptr<const void>> holds;  // of shared adapters
  };
  using ReadyAdapters = std::map<AdapterId, SharedAdapterLoader::Ready>;  // by the cluster's ids
  // An attempt that is accepted, and waits for adapters.
  struct Loading {
    delivery::StartAttempt start;
    LinkId link;
    ReadyAdapters ready;
  };
  // What is loaded, and for whom. Another tenant's sources may be slower, or none at all: nobody
  // waits for what they give.
  struct Load {
    std::string tenant;
    delivery::SharedAdapter shared;

    auto operator<=>(const Load&) const = default;
  };
  struct Gateway {
    TimePoint since;
    std::optional<GatewayId> id;  // said in its Hello
  };

  void Handle(LinkId link, const Hello& hello, TimePoint now);
  void Handle(LinkId link, const Welcome& welcome, TimePoint now);
  void Handle(LinkId link, delivery::StartAttempt& start, TimePoint now);
  void Handle(LinkId link, const delivery::ReleaseAttempt& release, TimePoint now);
  void Handle(LinkId link, const LoadAdapters& load, TimePoint now);
  template <typename Unexpected>
  void Handle(LinkId link, const Unexpected& body, TimePoint now);

  Status CheckGateway(const Hello& hello) const;
  void Refuse(LinkId link, const Status& why, TimePoint now);
  // Says to OnLoaded that an adapter is there, or cannot be.
  void Begin(const Load& load);
  // Loads first what is missing.
  void Begin(delivery::StartAttempt& start, LinkId link);
  void Run(delivery::StartAttempt& start, LinkId link, const ReadyAdapters& ready);
  void OnLoaded(const Load& load, const StatusOr<SharedAdapterLoader::Ready>& loaded,
                TimePoint now);
  // An accepted attempt does not begin: somewhere else it might, or nowhere.
  void Decline(const delivery::ReleaseAttempt& attempt, LinkId link, const Status& why);
  void Fail(const delivery::ReleaseAttempt& attempt, int32_t num_output, LinkId link,
            const Status& why);
  // An attempt that the end has let go of.
  void Drop(const delivery::ReleaseAttempt& attempt);
  void SendEvents(LinkId link, std::vector<wire::TokenEvent> events);
  int64_t PagesFor(const AdapterMix& mix, const ReadyAdapters& ready) const;
  wire::RunnerReport MakeReport() const;
  void Report(bool at_once, TimePoint now);
  Hello OwnHello() const;

  const RunnerNodeOptions options_;
  Links& links_;
  wire::SequencePort& engine_;
  SharedAdapterLoader* const shared_;
  delivery::RunnerEnd end_;
  Dialler scheduler_links_;
  std::optional<LinkId> leader_;
  bool is_leaving_ = false;
  std::map<LinkId, Gateway> gateways_;
  std::unordered_map<SequenceId, Running> running_;        // by the engine's ids
  std::unordered_map<SequenceId, SequenceId> engine_ids_;  // of live attempts, by sequence
  std::unordered_map<SequenceId, Loading> loading_;        // by sequence
  // The attempts that wait for each. A load goes on when they are given up: who asks again and
  // again, until it is there, does not begin again and again.
  std::map<Load, std::vector<delivery::ReleaseAttempt>> loads_;
  int64_t next_engine_id_ = 0;
  int64_t pages_available_;
  int64_t report_number_ = 0;
  TimePoint last_report_;
  std::map<std::string, std::string> refused_;  // what the log says already, by address
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_RUNNER_NODE_H_

// The shell around scheduler::Scheduler in a scheduler's process: links from gateways and runners.

#ifndef ARIL_CLUSTER_SCHEDULER_NODE_H_
#define ARIL_CLUSTER_SCHEDULER_NODE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cluster/frames.h"
#include "cluster/links.h"
#include "cluster/peer.h"
#include "scheduler/scheduler.h"

namespace aril::cluster {

struct SchedulerNodeOptions {
  Hello hello;                            // its own
  scheduler::SchedulerOptions scheduler;  // pages is what the runners say
  std::function<scheduler::Policies()> policies = [] { return scheduler::Policies(); };
  // Nobody else can lead: whoever has heard of a higher epoch (an earlier life of this process)
  // makes this one raise its own. Otherwise epochs come from an election.
  bool is_alone = true;
  // The sequences of a gateway that does not come back are void after this.
  Duration gateway_timeout = std::chrono::seconds(10);
};

// Not thread-safe.
//
// A reign needs a runner, by which it knows what a page is. Without one it places nothing, and
// tells nobody that it leads, so that requests fail after a while and do not wait for ever; when
// the last runner goes, or the lead, the reign ends, which gateways are told by the end of their
// links.
class SchedulerNode final : public Node {
 public:
  // `links` must outlive it.
  SchedulerNode(SchedulerNodeOptions options, Links& links);

  // From now on this process leads, under an epoch that is higher than any before; or does not.
  void Lead(Epoch epoch, TimePoint now);
  void StepDown(TimePoint now);

  void OnAccepted(LinkId link, TimePoint now) override;
  void OnFrame(LinkId link, Frame frame, TimePoint now) override;
  void OnBroken(LinkId link, const Status& why, TimePoint now) override;
  void OnTick(TimePoint now) override;

  // nullptr: it does not lead, or there has been no runner yet.
  const scheduler::Scheduler* reign() const { return reign_.get(); }
  std::optional<Epoch> epoch() const { return epoch_; }  // under which it leads
  size_t num_runners() const { return runners_.size(); }
  size_t num_gateways() const { return gateways_.size(); }

 private:
  struct Peer {
    TimePoint since;
    std::optional<Hello> hello;
  };

  void Handle(LinkId link, Peer& peer, Hello& hello, TimePoint now);
  void Handle(LinkId link, Peer& peer, const wire::Submission& submission, TimePoint now);
  void Handle(LinkId link, Peer& peer, const delivery::CloseSequence& close, TimePoint now);
  void Handle(LinkId link, Peer& peer, const wire::RunnerReport& report, TimePoint now);
  void Handle(LinkId link, Peer& peer, const RunnerLeaving& leaving, TimePoint now);
  template <typename Unexpected>
  void Handle(LinkId link, Peer& peer, const Unexpected& body, TimePoint now);

  Status CheckHello(const Hello& hello) const;
  void Refuse(LinkId link, const Status& why, TimePoint now);
  // Begins the reign if there is a runner.
  void TryReign(TimePoint now);
  void EndReign(const Status& why, TimePoint now);
  void Greet(LinkId link, const Hello& hello, TimePoint now);
  void SendRunnerList();
  void Tell(const scheduler::Event& event, TimePoint now);
  void Obey(const scheduler::Actions& actions);
  void ToGateway(GatewayId gateway, const Frame& frame);

  const SchedulerNodeOptions options_;
  Links& links_;
  std::optional<Epoch> epoch_;  // it leads
  std::unique_ptr<scheduler::Scheduler> reign_;
  std::map<LinkId, Peer> peers_;
  std::map<GatewayId, LinkId> gateways_;
  std::map<RunnerId, LinkId> runners_;
  std::map<GatewayId, TimePoint> gone_;  // gateways whose links broke, and when
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_SCHEDULER_NODE_H_

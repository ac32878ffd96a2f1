// The shell around delivery::GatewayEnd in a gateway's process: links to the schedulers, of which
// one leads, and to all runners that it has told of.

#ifndef ARIL_CLUSTER_GATEWAY_NODE_H_
#define ARIL_CLUSTER_GATEWAY_NODE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cluster/frames.h"
#include "cluster/links.h"
#include "cluster/peer.h"
#include "delivery/gateway_end.h"
#include "wire/ports.h"

namespace aril::cluster {

// An adapter of run time, for its requests.
struct SharedAdapterUse {
  delivery::SharedAdapter shared;
  int64_t pool_bytes = 0;  // of its weights in a runner's pool
  std::vector<int32_t> invocation_tokens;
};

struct GatewayNodeOptions {
  Hello hello;                          // its own
  std::vector<std::string> schedulers;  // "HOST:PORT"
  // What clients are promised; runners that hold less are refused.
  int64_t max_model_len = 0;
  delivery::GatewayEndOptions end;  // `gateway` is filled in
  // Of the deployment's adapters, by index: LoraSpec::invocation_tokens. Those beyond its end have
  // none.
  std::vector<std::vector<int32_t>> invocation_tokens;
  // What runners must be told of adapters from delivery::kFirstSharedAdapter on, while sequences
  // of a tenant use them; nullopt: nothing is known of it. The node's thread. May be empty.
  std::function<std::optional<SharedAdapterUse>(AdapterId, const std::string& tenant)> find_shared =
      nullptr;
  Duration redial_after = std::chrono::milliseconds(500);
};

// Not thread-safe.
class GatewayNode final : public Node {
 public:
  // `links` and `sink` must outlive it. The sink gets events under the ids of Submit.
  GatewayNode(GatewayNodeOptions options, Links& links, wire::EventSink& sink);

  // As wire::SequencePort has them, but that what is wrong comes as an event.
  void Submit(wire::SequenceRequest request, TimePoint now);
  void Cancel(SequenceId sequence);

  void OnAccepted(LinkId link, TimePoint now) override;
  void OnFrame(LinkId link, Frame frame, TimePoint now) override;
  void OnBroken(LinkId link, const Status& why, TimePoint now) override;
  void OnTick(TimePoint now) override;

  const delivery::GatewayEnd& end() const { return end_; }
  // To which attempts can be sent.
  size_t num_runners() const { return runner_of_.size(); }
  bool has_scheduler() const { return leader_.has_value(); }
  // New requests are placed, or wait for a while: there is a leader with a runner, or was one a
  // moment ago. Thread-safe.
  bool is_serving() const { return is_serving_.load(std::memory_order_relaxed); }

 private:
  // What is known of a runner; nothing of one that neither the scheduler tells of, nor has a link,
  // nor was to begin anything.
  struct Runner {
    std::string address;         // by the last scheduler; empty: it does not tell of it
    std::optional<LinkId> link;  // once it has said Hello
    std::string numeric_class;   // by that Hello, as what follows
    bool takes_hints = false;
    bool keeps_formats = false;
    bool keeps_tool_calls = false;
    bool keeps_reasoning = false;
    bool makes_embeddings = false;
    bool classifies = false;
    bool bounds_reasoning = false;
    bool masks_tokens = false;
    std::vector<delivery::StartAttempt> held;      // until it says Hello
    std::vector<delivery::AttemptRefused> unable;  // that it would not have known to refuse
    bool is_unreachable = false;                   // attempts were to begin there
  };

  void Handle(LinkId link, const Hello& hello, TimePoint now);
  void Handle(LinkId link, const Welcome& welcome, TimePoint now);
  void Handle(LinkId link, const RunnerList& list, TimePoint now);
  void Handle(LinkId link, const wire::Placement& placement, TimePoint now);
  void Handle(LinkId link, const Refusal& refusal, TimePoint now);
  void Handle(LinkId link, const Prefetch& prefetch, TimePoint now);
  void Handle(LinkId link, const TokenEvents& events, TimePoint now);
  void Handle(LinkId link, const delivery::AttemptRefused& refused, TimePoint now);
  template <typename Unexpected>
  void Handle(LinkId link, const Unexpected& body, TimePoint now);

  void HandleRunnerHello(LinkId link, const Hello& hello, TimePoint now);
  Status CheckRunner(const Hello& hello) const;
  // Closes a link for what came over it; the log says why.
  void Refuse(LinkId link, const Status& why, TimePoint now);
  // Of runners that are not to be at any address, or at this one.
  void FailHeld(const std::string& address, TimePoint now);
  // What was to begin on a runner, or runs there, has failed.
  void OnGone(RunnerId id, TimePoint now);
  void ForgetUnknown();
  void Perform(const delivery::Effects& effects);
  void Start(const delivery::StartOn& start);
  // On a runner with a link.
  void Send(Runner& runner, delivery::StartAttempt start);
  static const char* WhatItCannot(const Runner& runner, const wire::SequenceRequest& request);
  std::vector<delivery::SharedAdapter> SharedOf(const wire::SequenceRequest& request) const;
  delivery::StartAttempt WithShared(delivery::StartAttempt start) const;
  void Release(const delivery::ReleaseOn& release);
  void ToScheduler(const Frame& frame);
  void Deliver(wire::TokenEvent event);
  // Hands what has been delivered to the sink.
  void Flush(bool counts);
  delivery::SequenceCosts CostsOf(const wire::SequenceRequest& request) const;
  Hello OwnHello() const;

  const GatewayNodeOptions options_;
  Links& links_;
  wire::EventSink& sink_;
  delivery::GatewayEnd end_;
  Dialler scheduler_links_;
  Dialler runner_links_;
  std::optional<LinkId> leader_;
  std::map<RunnerId, Runner> runners_;
  std::map<LinkId, RunnerId> runner_of_;        // of those that have said Hello
  std::map<std::string, std::string> refused_;  // what the log says already, by address
  std::vector<int64_t> adapter_pages_;          // as runners count them; empty before the first
  int64_t page_bytes_ = 0;                      // of runners; 0 before the first
  uint32_t next_number_ = 0;
  // Of live sequences: their ids in the process and in the cluster.
  std::unordered_map<SequenceId, SequenceId> in_cluster_, in_process_;
  // The numeric class of what their clients have, by their ids in the cluster.
  std::unordered_map<SequenceId, std::string> class_of_;
  std::vector<wire::TokenEvent> delivered_;
  wire::StepStats stats_;
  std::atomic<bool> is_serving_ = false;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_GATEWAY_NODE_H_

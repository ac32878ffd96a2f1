// Gateways, schedulers and runners without a network between them: what processes do, in one thread
// and on a clock that stands still. The engine is a function of the tokens before, so a stream
// tells whether it went on where it had stopped.

#ifndef ARIL_CLUSTER_NODES_TEST_FIXTURE_H_
#define ARIL_CLUSTER_NODES_TEST_FIXTURE_H_

#include <map>
#include <memory>
#include <numeric>

#include "base/strings.h"
#include "cluster/gateway_node.h"
#include "cluster/peer.h"
#include "cluster/runner_node.h"
#include "cluster/scheduler_node.h"
#include "cluster/test_network.h"
#include "gtest/gtest.h"

namespace aril::cluster {

inline int32_t NextToken(const std::vector<int32_t>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), int32_t{7},
                         [](int32_t sum, int32_t token) { return (sum * 31 + token) % 1009; });
}

// Every sequence gets a token in every step.
class FakeEngine final : public wire::SequencePort {
 public:
  Status Submit(wire::SequenceRequest request) override {
    if (request.prompt.empty()) return InvalidArgument("the prompt has no tokens");
    if (is_full) return ResourceExhausted("the queue is full");
    const SequenceId id = request.sequence;
    EXPECT_TRUE(sequences.try_emplace(id, std::move(request)).second);
    return OkStatus();
  }
  void Cancel(SequenceId sequence) override { sequences.erase(sequence); }

  void Step(RunnerNode& node, TimePoint now) {
    wire::StepStats stats;
    stats.pages_available = 1000;
    std::vector<wire::TokenEvent> events;
    for (auto it = sequences.begin(); it != sequences.end();) {
      wire::SequenceRequest& request = it->second;
      std::vector<int32_t> tokens = request.prompt;
      tokens.insert(tokens.end(), request.output.begin(), request.output.end());
      wire::TokenEvent event;
      event.sequence = it->first;
      event.index = static_cast<int32_t>(request.output.size());
      event.token = NextToken(tokens);
      request.output.push_back(*event.token);
      const bool is_last = std::ssize(request.output) == request.max_tokens;
      if (is_last) event.finish = wire::FinishReason::kLength;
      events.push_back(event);
      stats.sequences.push_back({.sequence = it->first,
                                 .is_running = true,
                                 .has_started = true,
                                 .num_tokens = static_cast<int32_t>(tokens.size()) + 1});
      it = is_last ? sequences.erase(it) : std::next(it);
    }
    node.OnStep(stats, events, now);
  }

  std::map<SequenceId, wire::SequenceRequest> sequences;
  bool is_full = false;
};

// Adapters of run time, which a runner gets when the test says so.
class FakeSharedAdapters final : public SharedAdapterLoader {
 public:
  struct Loading {
    delivery::SharedAdapter shared;
    std::string tenant;
    Done done;
  };
  std::optional<Ready> Find(const std::string& digest) override {
    const auto found = there.find(digest);
    if (found == there.end()) return std::nullopt;
    return Ready{.adapter = found->second, .pages = 2, .hold = nullptr};
  }
  void Load(const delivery::SharedAdapter& shared, const std::string& tenant, Done done) override {
    loads.push_back({shared, tenant, std::move(done)});
  }
  // The first load's end.
  void Finish(const StatusOr<Ready>& ready, TimePoint now) {
    const Loading first = std::move(loads.front());
    loads.erase(loads.begin());
    if (ready.ok()) there[first.shared.digest] = ready->adapter;
    first.done(ready, now);
  }

  std::map<std::string, AdapterId> there;  // by digest
  std::vector<Loading> loads;
};

struct Client final : public wire::EventSink {
  struct Stream {
    std::vector<int32_t> tokens;
    std::optional<wire::FinishReason> finish;
    Status error;
  };
  void OnStep(const wire::StepStats& s, std::vector<wire::TokenEvent> events) override {
    stats = s;
    for (const wire::TokenEvent& event : events) {
      Stream& stream = streams[event.sequence.value()];
      EXPECT_FALSE(stream.finish.has_value());
      if (event.token) {
        EXPECT_EQ(event.index, std::ssize(stream.tokens));
        stream.tokens.push_back(*event.token);
      }
      stream.finish = event.finish;
      stream.error = event.error;
    }
  }
  std::map<int64_t, Stream> streams;
  wire::StepStats stats;
};

class NodesTest : public ::testing::Test {
 protected:
  struct Gateway {
    Links* links = nullptr;
    Client client;
    std::unique_ptr<GatewayNode> node;
  };
  struct Runner {
    Links* links = nullptr;
    FakeEngine engine;
    FakeSharedAdapters shared;
    std::unique_ptr<RunnerNode> node;
  };
  struct Scheduler {
    Links* links = nullptr;
    std::unique_ptr<SchedulerNode> node;
  };

  static Deployment Served() { return {"base", {{"french", "d1"}}}; }

  Hello HelloOf(Role role) {
    Hello hello;
    hello.version = "test";
    hello.role = role;
    if (role != Role::kScheduler) hello.id = next_id_++;
    hello.deployment = Served();
    if (role != Role::kRunner) return hello;
    hello.address = StrCat("runner-", hello.id, ":1");
    hello.runner = {.numeric_class = "a",
                    .max_running = 8,
                    .pages_total = 1000,
                    .pages = {.page_tokens = 16},
                    .page_bytes = 64,
                    .max_model_len = 500,
                    .adapter_pages = {3}};
    return hello;
  }

  Scheduler& StartScheduler(const std::string& address, bool is_alone = true,
                            Epoch epoch = Epoch(1), const scheduler::PolicyOptions& policies = {}) {
    Scheduler& scheduler = *schedulers_.emplace_back(std::make_unique<Scheduler>());
    scheduler.links = &network_.LinksOf(address);
    scheduler.node = std::make_unique<SchedulerNode>(
        SchedulerNodeOptions{.hello = HelloOf(Role::kScheduler),
                             .policies = [policies] { return scheduler::MakePolicies(policies); },
                             .is_alone = is_alone},
        *scheduler.links);
    network_.SetNode(*scheduler.links, scheduler.node.get());
    if (is_alone) scheduler.node->Lead(epoch, network_.now());
    return scheduler;
  }
  Runner& StartRunner(Hello hello) {
    Runner& runner = *runners_.emplace_back(std::make_unique<Runner>());
    runner.links = &network_.LinksOf(hello.address);
    runner.node = std::make_unique<RunnerNode>(
        RunnerNodeOptions{.hello = std::move(hello), .schedulers = addresses_}, *runner.links,
        runner.engine, &runner.shared);
    network_.SetNode(*runner.links, runner.node.get());
    return runner;
  }
  Runner& StartRunner() { return StartRunner(HelloOf(Role::kRunner)); }
  // What gateways know of adapters of run time: the id and the digest are one, and each tenant has
  // a source of its own.
  static std::optional<SharedAdapterUse> FindShared(AdapterId id, const std::string& tenant) {
    if (id == kUnknown) return std::nullopt;
    return SharedAdapterUse{{id, StrCat("digest ", id), {StrCat(tenant, "'s")}},
                            100,
                            id == kInvoked ? kInvocation : std::vector<int32_t>()};
  }
  static constexpr AdapterId kInvoked{delivery::kFirstSharedAdapter.value() + 2000};
  static inline const std::vector<int32_t> kInvocation = {77, 78};
  static constexpr AdapterId kUnknown{delivery::kFirstSharedAdapter.value() + 1000};

  Gateway& StartGateway(Hello hello) {
    Gateway& gateway = *gateways_.emplace_back(std::make_unique<Gateway>());
    gateway.links = &network_.LinksOf("");
    gateway.node = std::make_unique<GatewayNode>(GatewayNodeOptions{.hello = std::move(hello),
                                                                    .schedulers = addresses_,
                                                                    .max_model_len = 500,
                                                                    .find_shared = FindShared},
                                                 *gateway.links, gateway.client);
    network_.SetNode(*gateway.links, gateway.node.get());
    return gateway;
  }
  Gateway& StartGateway() { return StartGateway(HelloOf(Role::kGateway)); }
  template <typename Process>
  void Kill(Process& process) {
    network_.SetNode(*process.links, nullptr);
    network_.Pump();
  }

  void Submit(Gateway& gateway, int64_t id, int32_t max_tokens, std::vector<int32_t> prompt,
              AdapterMix adapters = MixOf(AdapterId(0)), const std::string& tenant = "default") {
    wire::SequenceRequest request;
    request.sequence = SequenceId(id);
    request.tenant = tenant;
    request.adapters = std::move(adapters);
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.arrival = network_.now();
    gateway.node->Submit(request, network_.now());
    network_.Pump();
  }
  void Step() {
    for (const auto& runner : runners_) {
      if (runner->node) runner->engine.Step(*runner->node, network_.now());
    }
    network_.Pump();
  }
  void StepToEnd(int num_steps = 100) {
    for (int i = 0; i < num_steps; ++i) {
      Step();
      network_.Run(std::chrono::milliseconds(100));
    }
  }
  // What a stream must be, whoever computes it.
  static std::vector<int32_t> Expected(std::vector<int32_t> prompt, int32_t max_tokens) {
    std::vector<int32_t> output;
    for (int32_t i = 0; i < max_tokens; ++i) {
      output.push_back(NextToken(prompt));
      prompt.push_back(output.back());
    }
    return output;
  }
  static size_t NumRunning(const std::vector<std::unique_ptr<Runner>>& runners) {
    size_t count = 0;
    for (const auto& runner : runners) count += runner->engine.sequences.size();
    return count;
  }
  // The runner that has something to do.
  Runner& Busy() {
    for (const auto& runner : runners_) {
      if (!runner->engine.sequences.empty()) return *runner;
    }
    ADD_FAILURE() << "nobody is busy";
    return *runners_.front();
  }

  TestNetwork network_;
  std::vector<std::string> addresses_ = {"scheduler:1"};
  std::vector<std::unique_ptr<Scheduler>> schedulers_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<std::unique_ptr<Gateway>> gateways_;
  int32_t next_id_ = 1;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_NODES_TEST_FIXTURE_H_

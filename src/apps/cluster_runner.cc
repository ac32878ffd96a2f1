// `aril runner`.

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "apps/cluster_processes.h"
#include "apps/local_adapters.h"
#include "apps/model_fingerprint.h"
#include "apps/remote_adapters.h"
#include "apps/runner_shared_adapters.h"
#include "apps/service_manager.h"
#include "apps/start_up.h"
#include "apps/status_server.h"
#include "apps/termination.h"
#include "base/log.h"
#include "base/strings.h"
#include "catalog/state_dir.h"
#include "cluster/grpc_links.h"
#include "cluster/node_loop.h"
#include "cluster/runner_node.h"
#include "gateway/metrics.h"
#include "runner/local_runner.h"
#include "sources/adapter_fetcher.h"
#include "tokenizer/tokenizer_folder.h"

namespace aril {
namespace {

constexpr Duration kDrainPoll = std::chrono::milliseconds(100);

// Carries the engine's steps to the node's thread.
class StepSink final : public wire::EventSink {
 public:
  StepSink(cluster::NodeLoop& loop, gateway::Metrics& metrics) : loop_(loop), metrics_(metrics) {}
  // Before any step.
  void SetNode(cluster::RunnerNode& node) { node_ = &node; }

  void OnStep(const wire::StepStats& stats, std::vector<wire::TokenEvent> events) override {
    metrics_.OnStep(stats);
    loop_.Post([node = node_, stats, events = std::move(events)](TimePoint now) {
      node->OnStep(stats, events, now);
    });
  }

 private:
  cluster::NodeLoop& loop_;
  gateway::Metrics& metrics_;
  cluster::RunnerNode* node_ = nullptr;
};

cluster::RunnerCapacity CapacityOf(LocalRunner& runner, const ServeOptions& options,
                                   size_t max_live, size_t num_adapters) {
  const Engine& engine = runner.engine();
  cluster::RunnerCapacity capacity = {
      .numeric_class = runner.NumericClass(),
      .max_running = std::min<int64_t>(options.runner.max_num_seqs, max_live),
      .pages_total = engine.Stats().pages_total,
      .pages = engine.layout().pages(),
      .page_bytes = static_cast<int64_t>(engine.layout().page_bytes()),
      .max_model_len = runner.max_model_len(),
      .adapter_pages = {},
      .caches_prefixes = engine.caches_prefixes(),
  };
  for (size_t i = 0; i < num_adapters; ++i) {
    capacity.adapter_pages.push_back(engine.PagesFor(AdapterId(static_cast<int32_t>(i))));
  }
  return capacity;
}

// By which the runner gets adapters that it was not started with.
struct RunTimeAdapters {
  std::optional<StateDir> state;
  std::optional<LocalAdapters> local;
  std::optional<RemoteAdapters> remote;

  // What they say of text is the gateways' business.
  Status SetUp(const ServeOptions& serve, LocalRunner& runner, const Clock& clock) {
    ASSIGN_OR_RETURN(AdapterRoots roots, AdapterRoots::Of(serve.adapter_roots));
    if (!serve.state_dir.empty()) {
      ASSIGN_OR_RETURN(const std::string base, ModelFingerprint(serve.runner.model_dir));
      ASSIGN_OR_RETURN(state, OpenStateDir(serve.state_dir, base));
    }
    const GenerationStore* const store = state ? &state->store : nullptr;
    local.emplace(runner, LocalAdapters::Options{.roots = std::move(roots), .store = store});
    if (state) remote.emplace(AdapterFetcher(serve.sources, clock), *local, state->store);
    return OkStatus();
  }
};

// Where gateways find it: where it listens, unless that is every address there is.
StatusOr<std::string> AdvertisedAddress(const ClusterOptions& options, uint16_t port) {
  if (!options.advertise.empty()) {
    RETURN_IF_ERROR(cluster::ParseHostPort("--advertise", options.advertise).status());
    return options.advertise;
  }
  ASSIGN_OR_RETURN(const cluster::HostPort listen,
                   cluster::ParseHostPort("--listen", options.listen));
  if (listen.host == "0.0.0.0" || listen.host == "[::]") {
    return InvalidArgument(
        StrCat("--listen ", options.listen,
               " is every address of this machine: say with --advertise HOST:PORT which one the "
               "gateways are to use"));
  }
  return StrCat(listen.host, ":", port);
}

// Takes nothing new; what runs moves away, or ends.
void Drain(cluster::NodeLoop& loop, cluster::RunnerNode& node, Termination& termination,
           Duration timeout, const Clock& clock) {
  LogInfo("Shutting down: the sequences move to other runners. A second signal ends at once.");
  // What is posted may run when this function has returned.
  const auto is_empty = std::make_shared<std::atomic<bool>>(false);
  const TimePoint end = clock.Now() + timeout;
  loop.Post([&node](TimePoint now) { node.Leave(now); });
  do {
    loop.Post([&node, is_empty](TimePoint) { *is_empty = node.end().num_live() == 0; });
  } while (!termination.WaitFor(kDrainPoll) && !*is_empty && clock.Now() < end);
}

}  // namespace

Status RunRunner(const RunnerProcessOptions& options, const Clock& clock) {
  RETURN_IF_ERROR(CheckSchedulers(options.cluster));
  RETURN_IF_ERROR(CheckModelDir(options.serve.runner.model_dir));
  ASSIGN_OR_RETURN(std::vector<NamedAdapter> adapters, ListAdapters(options.serve));
  ServeOptions serve = options.serve;
  serve.runner.lists_sequences = true;
  serve.runner.max_queued = 2 * options.max_live;  // those being cancelled included
  Termination termination;
  ASSIGN_OR_RETURN(auto status_server, ListenForStatus(options.cluster));
  auto tokenizer = LoadTokenizer(serve.runner.model_dir);
  if (!tokenizer.ok()) {
    LogWarning(StrCat("without a tokenizer, requests with a format are refused: ",
                      Message(tokenizer.status())));
  }
  const bool has_tokenizer = tokenizer.ok();
  ASSIGN_OR_RETURN(
      const auto runner,
      MakeRunner(serve, has_tokenizer ? *std::move(tokenizer) : nullptr, clock, &adapters));
  RunTimeAdapters run_time;
  RETURN_IF_ERROR(run_time.SetUp(serve, *runner, clock));
  cluster::Hello hello = MakeHello(cluster::Role::kRunner);
  ASSIGN_OR_RETURN(hello.deployment, DescribeDeployment(serve.runner.model_dir, adapters));
  hello.keeps_formats = hello.keeps_tool_calls = hello.keeps_reasoning = has_tokenizer;
  hello.runner = CapacityOf(*runner, serve, options.max_live, adapters.size());

  cluster::NodeLoop loop(clock);
  gateway::Metrics metrics(gateway::Metrics::Process::kRunner);
  metrics.SetAdapters(
      [&adapters](AdapterId id) {
        const auto index = static_cast<size_t>(id.value());
        if (id == kBaseModel) return std::string("base");
        return index < adapters.size() ? adapters[index].name : "of run time";
      },
      [&adapters] { return std::ssize(adapters); });
  StepSink sink(loop, metrics);
  // Listens before the node tells others where.
  ASSIGN_OR_RETURN(const auto links,
                   cluster::GrpcLinks::Create(LinkOptions(options.cluster), loop, clock));
  ASSIGN_OR_RETURN(hello.address, AdvertisedAddress(options.cluster, links->port()));
  LogInfo(runner->Description());
  LogInfo(StrCat("Runner ", hello.id, " at ", hello.address));
  std::optional<RunnerSharedAdapters> shared;
  if (MayChangeAdapters(serve)) {
    shared.emplace(RunnerSharedAdapters::Options(), loop, *runner, *run_time.local,
                   run_time.remote ? &*run_time.remote : nullptr);
  }
  cluster::RunnerNode node({.hello = std::move(hello),
                            .schedulers = options.cluster.schedulers,
                            .max_live = options.max_live},
                           *links, runner->port(), shared ? &*shared : nullptr);
  sink.SetNode(node);
  runner->Start(sink);
  loop.Start(node);
  if (status_server) {
    status_server->Serve([&](const std::function<void(ProcessStatus)>& tell) {
      loop.Post([&, tell](TimePoint) {
        tell({node.Readiness(), metrics.Scrape(clock.UnixSeconds())});
      });
    });
  }
  ServiceManager::FromEnvironment().Ready();
  termination.Wait();
  ServiceManager::FromEnvironment().Stopping(
      std::chrono::duration_cast<std::chrono::microseconds>(options.serve.drain_timeout));
  Drain(loop, node, termination, options.serve.drain_timeout, clock);
  loop.Stop();
  shared.reset();
  status_server.reset();
  runner->Stop();
  return OkStatus();
}

}  // namespace aril

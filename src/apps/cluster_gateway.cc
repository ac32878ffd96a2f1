// `aril gateway`.

#include <memory>
#include <optional>
#include <utility>

#include "adapters/adapter.h"
#include "apps/cluster_processes.h"
#include "apps/fd_limit.h"
#include "apps/front.h"
#include "apps/served_model.h"
#include "apps/shared_catalog.h"
#include "apps/start_up.h"
#include "base/log.h"
#include "base/strings.h"
#include "catalog/catalog.h"
#include "cluster/gateway_node.h"
#include "cluster/grpc_links.h"
#include "cluster/node_loop.h"
#include "model/max_model_len.h"

namespace aril {
namespace {

// Hands requests to the node's thread. What it refuses comes back as an event.
class ClusterPort final : public wire::SequencePort {
 public:
  ClusterPort(cluster::NodeLoop& loop, cluster::GatewayNode& node) : loop_(loop), node_(node) {}

  // How many are on their way is bounded by the requests that the gateway takes.
  Status Submit(wire::SequenceRequest request) override {
    loop_.Post([node = &node_, request = std::move(request)](TimePoint now) {
      node->Submit(request, now);
    });
    return OkStatus();
  }
  void Cancel(SequenceId sequence) override {
    loop_.Post([node = &node_, sequence](TimePoint) { node->Cancel(sequence); });
  }
  Status Readiness() const override {
    if (node_.is_serving()) return OkStatus();
    return Unavailable("There is no scheduler, or no runner, at present.");
  }

 private:
  cluster::NodeLoop& loop_;
  cluster::GatewayNode& node_;
};

using InvocationTokens = std::vector<std::vector<int32_t>>;

// What the runners verify completely is described from its header here. `texts`: of those that
// bring any. `invocation_tokens`: by the adapters' indices.
StatusOr<std::vector<std::shared_ptr<const Generation>>> DescribeAdapters(
    const std::vector<NamedAdapter>& adapters, const cluster::Deployment& deployment,
    const ModelSpec& spec, int64_t max_rank, const AdapterTextReader& text_reader,
    gateway::AdapterTexts* texts, InvocationTokens* invocation_tokens) {
  std::vector<std::shared_ptr<const Generation>> generations;
  std::vector<AdapterFailure> failures;
  for (size_t i = 0; i < adapters.size(); ++i) {
    const auto adapter =
        Adapter::OpenWithoutBase(adapters[i].dir, spec, max_rank, Adapter::Values::kFinite);
    if (!adapter.ok()) {
      failures.push_back({i, adapter.status()});
      continue;
    }
    const AdapterId id(static_cast<int32_t>(i));
    auto text = text_reader.Read(adapters[i].dir, adapter->spec().vocab_size);
    if (!text.ok()) {
      failures.push_back({i, text.status()});
      continue;
    }
    if (*text != nullptr) texts->Set(id, *std::move(text));
    generations.push_back(std::make_shared<const Generation>(
        Generation::Description{.adapter = id,
                                .digest = deployment.adapters[i].digest,
                                .rank = adapter->spec().MaxRank(),
                                .bytes = adapter->file_bytes()}));
    invocation_tokens->push_back(adapter->spec().invocation_tokens);
  }
  if (!failures.empty()) return DescribeFailures(failures, adapters);
  return generations;
}

// Everything about the model that answering requests takes, but for its weights.
StatusOr<gateway::ServedModel> DescribeModel(const ServeOptions& options,
                                             const std::vector<NamedAdapter>& adapters,
                                             const cluster::Deployment& deployment,
                                             SharedCatalog* shared, const Clock& clock,
                                             InvocationTokens* invocation_tokens) {
  const std::string& model_dir = options.text.model_dir;
  ASSIGN_OR_RETURN(ReadModel read, ReadServedModel(options.text));
  gateway::ServedModel& model = read.served;
  ASSIGN_OR_RETURN(const ModelSpec spec, LoadModelSpec(model_dir));
  ASSIGN_OR_RETURN(
      const auto generations,
      DescribeAdapters(adapters, deployment, spec, options.runner.max_lora_rank, *read.adapter_text,
                       model.adapter_texts.get(), invocation_tokens));
  ASSIGN_OR_RETURN(const int64_t max_model_len,
                   ChooseMaxModelLen(options.runner.max_model_len, spec));
  DescribeRunner(spec, max_model_len, &model);
  model.created = clock.UnixSeconds();
  Catalog::Options catalog_options = {.clock = &clock};
  if (shared != nullptr) {
    ASSIGN_OR_RETURN(AdapterRoots roots, AdapterRoots::Of(options.adapter_roots));
    shared->MakeAdapters({.roots = std::move(roots),
                          .spec = spec,
                          .max_rank = options.runner.max_lora_rank,
                          .parent = BaseNames(options.text).front(),
                          .text_reader = read.adapter_text,
                          .texts = model.adapter_texts},
                         options.sources, clock);
    catalog_options = shared->CatalogOptions(clock);
  }
  ASSIGN_OR_RETURN(model.catalog,
                   Catalog::Create(EntriesOf(BaseNames(options.text), model_dir, adapters,
                                             generations, clock.UnixSeconds()),
                                   std::move(catalog_options)));
  if (shared != nullptr) RETURN_IF_ERROR(shared->Follow(model.catalog));
  return std::move(model);
}

// A gateway that is to let clients load adapters must be able to tell the others.
Status CheckAdapterFlags(const GatewayProcessOptions& options) {
  if (!options.etcd.members.empty() || !MayChangeAdapters(options.serve)) return OkStatus();
  return InvalidArgument(
      "--adapter-root and --state-dir need --etcd, by which the gateways share what clients load");
}

}  // namespace

Status RunGateway(const GatewayProcessOptions& options, const Clock& clock) {
  const ServeOptions& serve = options.serve;
  RETURN_IF_ERROR(CheckSchedulers(options.cluster));
  RETURN_IF_ERROR(CheckAdapterFlags(options));
  RETURN_IF_ERROR(RaiseFdLimit(serve.http.max_connections));
  RETURN_IF_ERROR(CheckModelDir(serve.runner.model_dir));
  ASSIGN_OR_RETURN(const std::vector<NamedAdapter> adapters, ListAdapters(serve));
  ASSIGN_OR_RETURN(auto server, gateway::HttpServer::Listen(serve.http));
  cluster::Hello hello = MakeHello(cluster::Role::kGateway);
  ASSIGN_OR_RETURN(hello.deployment, DescribeDeployment(serve.text.model_dir, adapters));
  // Outlives everything that holds generations.
  std::unique_ptr<SharedCatalog> shared;
  if (!options.etcd.members.empty()) {
    ASSIGN_OR_RETURN(shared, SharedCatalog::Open(options, hello.deployment.base_digest, clock));
  }
  Front front(std::move(server), serve, clock, Front::Place::kCluster);
  InvocationTokens invocation_tokens;
  ASSIGN_OR_RETURN(auto model, DescribeModel(serve, adapters, hello.deployment, shared.get(), clock,
                                             &invocation_tokens));

  cluster::NodeLoop loop(clock);
  ASSIGN_OR_RETURN(const auto links,
                   cluster::GrpcLinks::Create(LinkOptions(options.cluster), loop, clock));
  LogInfo(StrCat("Gateway ", hello.id, " of ", options.cluster.schedulers.size(), " schedulers"));
  cluster::GatewayNodeOptions node_options = {.hello = std::move(hello),
                                              .schedulers = options.cluster.schedulers,
                                              .max_model_len = model.max_model_len,
                                              .invocation_tokens = std::move(invocation_tokens)};
  if (shared != nullptr) {
    node_options.find_shared = [&shared](AdapterId id, const std::string& tenant) {
      return shared->adapters().Find(id, tenant);
    };
  }
  cluster::GatewayNode node(std::move(node_options), *links, front.sink());
  ClusterPort port(loop, node);
  loop.Start(node);
  LogInfo(StrCat("Serving on ", serve.http.ssl_certfile.empty() ? "http" : "https", "://",
                 serve.http.host, ":", front.port()));
  const bool may_change = shared != nullptr && MayChangeAdapters(serve);
  front.Begin(std::make_shared<const gateway::ServedModel>(std::move(model)), &port,
              may_change ? &shared->adapters() : nullptr, may_change ? shared->remote() : nullptr);
  front.ServeUntilSignal();
  loop.Stop();
  return OkStatus();
}

}  // namespace aril

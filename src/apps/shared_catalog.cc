#include "apps/shared_catalog.h"

#include <chrono>
#include <utility>

#include "apps/model_fingerprint.h"
#include "base/log.h"
#include "base/strings.h"
#include "sources/adapter_fetcher.h"

namespace aril {
namespace {

constexpr Duration kInterval = std::chrono::milliseconds(500);

}  // namespace

StatusOr<std::unique_ptr<SharedCatalog>> SharedCatalog::Open(const GatewayProcessOptions& options,
                                                             const std::string& base_digest,
                                                             const Clock& clock) {
  std::unique_ptr<SharedCatalog> shared(new SharedCatalog());
  ASSIGN_OR_RETURN(shared->store_, cluster::EtcdStore::Create(
                                       {.endpoints = options.etcd.members,
                                        .tls = options.etcd.tls,
                                        .allows_insecure = options.cluster.allows_insecure}));
  std::string prefix = options.etcd_prefix;
  if (!prefix.ends_with('/')) prefix += '/';
  auto names = cluster::SharedNames::Open({.prefix = prefix, .base_digest = base_digest},
                                          *shared->store_, clock);
  if (!names.ok()) return Annotate(names.status(), "--etcd");
  shared->names_ = *std::move(names);
  if (!options.serve.state_dir.empty()) {
    ASSIGN_OR_RETURN(const std::string base, ModelFingerprint(options.serve.runner.model_dir));
    ASSIGN_OR_RETURN(shared->state_, OpenStateDir(options.serve.state_dir, base));
  }
  return shared;
}

SharedCatalog::~SharedCatalog() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void SharedCatalog::MakeAdapters(ClusterAdapters::Options adapters, const SourcePolicy& sources,
                                 const Clock& clock) {
  adapters_.emplace(std::move(adapters), *names_);
  if (state_) remote_.emplace(AdapterFetcher(sources, clock), *adapters_, state_->store);
}

Catalog::Options SharedCatalog::CatalogOptions(const Clock& clock) {
  return {.clock = &clock,
          .registry = names_.get(),
          .restore = [this](const RegisteredAdapter& row) { return adapters_->Restore(row); },
          .on_forgotten = [this](const std::string& digest) { names_->Forget(digest); }};
}

Status SharedCatalog::Follow(std::shared_ptr<Catalog> catalog) {
  RETURN_IF_ERROR(Annotate(catalog->Sync(), "--etcd"));
  thread_ = std::thread([this, catalog = std::move(catalog)] { Run(*catalog); });
  return OkStatus();
}

void SharedCatalog::Run(Catalog& catalog) {
  bool is_reachable = true;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, kInterval, [this] { return is_stopping_; })) return;
    }
    const Status synced = catalog.Sync();
    if (synced.ok() == std::exchange(is_reachable, synced.ok())) continue;
    if (synced.ok()) {
      LogInfo("the names of adapters are followed again");
    } else {
      LogWarning(StrCat("the names of adapters stay as they are: ", Message(synced)));
    }
  }
}

}  // namespace aril

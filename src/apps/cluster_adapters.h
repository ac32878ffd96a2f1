// Adapters that clients give to a cluster at run time, as its gateways see them: names and
// generations that all of them share, and that the runners get from their sources themselves.

#ifndef ARIL_APPS_CLUSTER_ADAPTERS_H_
#define ARIL_APPS_CLUSTER_ADAPTERS_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "apps/adapter_roots.h"
#include "apps/adapter_text.h"
#include "apps/incoming_adapters.h"
#include "base/folder.h"
#include "base/status.h"
#include "catalog/catalog.h"
#include "cluster/gateway_node.h"
#include "cluster/shared_names.h"
#include "gateway/adapter_loader.h"
#include "gateway/model_text.h"
#include "spec/model_spec.h"

namespace aril {

// Thread-safe. Outlives its generations.
class ClusterAdapters final : public gateway::AdapterLoader, public IncomingAdapters {
 public:
  struct Options {
    AdapterRoots roots;  // runners find the same folders beneath theirs
    ModelSpec spec;
    int64_t max_rank = 0;
    std::string parent;  // the base model's name
    std::shared_ptr<const AdapterTextReader> text_reader;
    std::shared_ptr<gateway::AdapterTexts> texts;
  };
  // `names` must outlive it.
  ClusterAdapters(Options options, cluster::SharedNames& names)
      : options_(std::move(options)), names_(names) {}

  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) override;
  StatusOr<Generation::Description> Verify(const std::string& source) override;
  StatusOr<std::shared_ptr<const Generation>> Recall(const std::string& digest) override;

  // What has been fetched is only verified here: runners fetch it themselves.
  StatusOr<std::shared_ptr<const Generation>> Open(const GenerationStore::Incoming& incoming,
                                                   const std::string& source) override;
  Status Keep(GenerationStore::Incoming, const Generation&) override { return OkStatus(); }
  StatusOr<Generation::Description> Verify(const GenerationStore::Incoming& incoming,
                                           const std::string& source) override;

  // What a name that some gateway has written stands for. NotFound if a generation of it is not
  // registered.
  StatusOr<CatalogEntry> Restore(const RegisteredAdapter& row);
  // Of adapters that somebody holds, for requests of a tenant. Any thread; waits for nobody.
  std::optional<cluster::SharedAdapterUse> Find(AdapterId adapter, const std::string& tenant) const;

 private:
  using GenerationPtr = std::shared_ptr<const Generation>;

  StatusOr<cluster::SharedGeneration> Describe(const Folder& dir, const std::string& digest,
                                               const std::string& source) const;
  StatusOr<cluster::SharedGeneration> DescribeFolder(const std::string& source) const;
  StatusOr<GenerationPtr> Register(const cluster::SharedGeneration& generation);
  // An error if what was registered of it cannot be read.
  StatusOr<GenerationPtr> MakeKnown(AdapterId adapter, const cluster::SharedGeneration& generation);
  void Release(AdapterId adapter);

  const Options options_;
  cluster::SharedNames& names_;
  struct Held {
    std::weak_ptr<const Generation> generation;
    std::string digest;
    std::string source;  // as it was registered when it was made known
    int64_t pool_bytes = 0;
    std::vector<int32_t> invocation_tokens;
  };
  mutable std::mutex mutex_;
  std::unordered_map<AdapterId, Held> held_;
};

}  // namespace aril

#endif  // ARIL_APPS_CLUSTER_ADAPTERS_H_

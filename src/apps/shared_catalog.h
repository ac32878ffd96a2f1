// The catalog of a cluster's gateway: names that clients have given to adapters at run time,
// through this gateway or another one.

#ifndef ARIL_APPS_SHARED_CATALOG_H_
#define ARIL_APPS_SHARED_CATALOG_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "apps/cluster_adapters.h"
#include "apps/cluster_processes.h"
#include "apps/remote_adapters.h"
#include "base/clock.h"
#include "base/status.h"
#include "catalog/catalog.h"
#include "catalog/state_dir.h"
#include "cluster/etcd_store.h"
#include "cluster/shared_names.h"
#include "sources/source_policy.h"

namespace aril {

// Set up by one thread, in the order of its functions. Outlives everything that holds generations.
class SharedCatalog {
 public:
  // An error says what etcd, or a folder, lacks.
  static StatusOr<std::unique_ptr<SharedCatalog>> Open(const GatewayProcessOptions& options,
                                                       const std::string& base_digest,
                                                       const Clock& clock);
  ~SharedCatalog();

  void MakeAdapters(ClusterAdapters::Options adapters, const SourcePolicy& sources,
                    const Clock& clock);
  Catalog::Options CatalogOptions(const Clock& clock);
  // Reads all names; then keeps them as the others change them, until this object ends.
  Status Follow(std::shared_ptr<Catalog> catalog);

  ClusterAdapters& adapters() { return *adapters_; }
  RemoteAdapters* remote() { return remote_ ? &*remote_ : nullptr; }

 private:
  SharedCatalog() = default;
  void Run(Catalog& catalog);

  std::unique_ptr<cluster::EtcdStore> store_;
  std::unique_ptr<cluster::SharedNames> names_;
  std::optional<StateDir> state_;
  std::optional<ClusterAdapters> adapters_;
  std::optional<RemoteAdapters> remote_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace aril

#endif  // ARIL_APPS_SHARED_CATALOG_H_

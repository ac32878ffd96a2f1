// Adapters that come to a cluster at run time, in the process of a runner.

#ifndef ARIL_APPS_RUNNER_SHARED_ADAPTERS_H_
#define ARIL_APPS_RUNNER_SHARED_ADAPTERS_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "apps/local_adapters.h"
#include "base/status.h"
#include "base/work_queue.h"
#include "cluster/node_loop.h"
#include "cluster/shared_adapters.h"
#include "gateway/remote_loader.h"
#include "runner/local_runner.h"

namespace aril {

// Keeps what it has loaded, up to a number, as the next request for it may come soon: their files
// are closed, and their weights leave the pool, by the runner's own budgets.
class RunnerSharedAdapters final : public cluster::SharedAdapterLoader {
 public:
  struct Options {
    size_t max_kept = static_cast<size_t>(Catalog::kMaxAdapters);
    size_t num_threads = 8;              // that fetch and verify
    size_t max_parallel_per_tenant = 4;  // so that nobody's slow sources hold up all others'
    size_t max_queued = 4096;            // loads
  };
  // All must outlive it; `remote` may be null: then only folders are sources. It ends before
  // `loop`.
  RunnerSharedAdapters(Options options, cluster::NodeLoop& loop, LocalRunner& runner,
                       LocalAdapters& local, gateway::RemoteLoader* remote)
      : options_(options),
        loop_(loop),
        runner_(runner),
        local_(local),
        remote_(remote),
        queue_({.max_length = options.max_queued,
                .num_threads = options.num_threads,
                .max_running_per_lane = options.max_parallel_per_tenant}) {}

  ~RunnerSharedAdapters() override { is_ending_ = true; }

  std::optional<Ready> Find(const std::string& digest) override;
  void Load(const delivery::SharedAdapter& shared, const std::string& tenant, Done done) override;

 private:
  using GenerationPtr = std::shared_ptr<const Generation>;

  GenerationPtr FindKept(const std::string& digest);
  void Keep(const GenerationPtr& generation);
  void Forget(const std::string& digest);
  // Removes its files from the store, unless they are kept for somebody, in use, or being prepared.
  void Drop(GenerationPtr generation);
  StatusOr<GenerationPtr> Get(const std::string& source, const std::string& digest);
  StatusOr<GenerationPtr> Fetch(const std::string& source, const std::string& digest);
  StatusOr<Ready> Prepare(const delivery::SharedAdapter& shared);
  StatusOr<Ready> FindOrGet(const delivery::SharedAdapter& shared);
  StatusOr<Ready> PrepareAndKeep(const GenerationPtr& generation);
  Ready MakeReady(const GenerationPtr& generation, Generation::Opened opened) const;

  const Options options_;
  cluster::NodeLoop& loop_;
  LocalRunner& runner_;
  LocalAdapters& local_;
  gateway::RemoteLoader* const remote_;
  std::atomic<bool> is_ending_ = false;
  std::mutex mutex_;
  std::list<GenerationPtr> kept_;  // the last used one first
  std::unordered_map<std::string, std::list<GenerationPtr>::iterator> by_digest_;
  std::multiset<std::string> preparing_;  // digests
  WorkQueue queue_;                       // ends first
};

}  // namespace aril

#endif  // ARIL_APPS_RUNNER_SHARED_ADAPTERS_H_

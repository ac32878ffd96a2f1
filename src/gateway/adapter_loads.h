// Adapters that are being fetched: side by side, within bounds, without holding up anything else.

#ifndef ARIL_GATEWAY_ADAPTER_LOADS_H_
#define ARIL_GATEWAY_ADAPTER_LOADS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/transfer_monitor.h"

namespace aril::gateway {

// One load, as it is now.
struct AdapterLoadStatus {
  enum class State { kQueued, kLoading, kFailed };
  State state = State::kQueued;
  std::string source;
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;  // as far as is known: it may grow
  Status error;             // of a failed one
};

// The loads of names of tenants, at most one for each. Thread-safe. What succeeded is forgotten:
// the catalog has it. What failed is remembered until the name changes or goes, or until many
// others have failed.
class AdapterLoads {
 public:
  struct Options {
    size_t max_parallel = 8;             // each is a thread
    size_t max_parallel_per_tenant = 4;  // so that nobody's slow sources hold up all others'
    size_t max_queued = 256;
    size_t max_queued_per_tenant = 64;
    size_t max_failed = 1000;
  };
  // Fetches, and lets the name stand for what there is now; on one of the threads. Must not throw.
  using Work = std::function<Status(TransferMonitor& monitor)>;
  using Done = std::function<void(const Status& status)>;

  explicit AdapterLoads(Options options);
  AdapterLoads() : AdapterLoads(Options()) {}
  AdapterLoads(const AdapterLoads&) = delete;
  AdapterLoads& operator=(const AdapterLoads&) = delete;
  // Cancels what there is and waits until it has ended.
  ~AdapterLoads();

  struct Request {
    std::string tenant;
    std::string name;
    std::string source;
    // Two loads of a name with the same one give the same; empty: nobody knows what is fetched.
    std::string identity;
    // Changes nothing: it has no part in what is said of the name, replaces no load of it, and is
    // forgotten when it is over.
    bool is_trial = false;
  };
  // Begins a load, in place of one of the same name, which is cancelled; whoever waits for that one
  // waits for this. One that would give the same goes on instead: who asks again and again, until
  // it is there, does not begin again and again. ResourceExhausted if too many are queued. `done`
  // (may be empty) is called once, when it is over, on any thread but never before Start returns on
  // its own.
  Status Start(Request request, Work work, Done done = nullptr);
  // Cancels a load, or forgets one that failed. False if there is neither.
  bool Cancel(const std::string& tenant, const std::string& name);

  std::optional<AdapterLoadStatus> Find(std::string_view tenant, std::string_view name) const;
  // Those of a tenant, by name.
  std::vector<std::pair<std::string, AdapterLoadStatus>> List(std::string_view tenant) const;

  // Calls `then` when the load of that name that is under way is over, on any thread; false,
  // without calling it, if there is none.
  bool WhenOver(const std::string& tenant, const std::string& name, std::function<void()> then);

  // Held by whoever changes what names stand for: a load that is cancelled while somebody else
  // holds it changes nothing any more.
  std::mutex& changes() { return changes_; }

 private:
  class Load;
  using LoadPtr = std::shared_ptr<Load>;
  using Key = std::pair<std::string, std::string>;  // tenant, name

  void Loop();
  // mutex_ is held for these.
  LoadPtr TakeNext();
  void ForgetFailed(const Key& key);
  // Whether what `load` asks for is under way already: its `dones` are that one's then.
  bool Join(Load& load);
  size_t NumQueued(const std::string& tenant) const;
  // Not held. Tells whoever waits.
  void Finish(const LoadPtr& load, const Status& status);

  const Options options_;
  std::mutex changes_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::map<Key, LoadPtr, std::less<>> loads_;  // queued, under way, or failed
  std::set<LoadPtr> trials_;                   // queued or under way
  std::deque<LoadPtr> queue_;
  std::deque<Key> failed_;                     // oldest first
  std::map<std::string, size_t> num_running_;  // by tenant
  std::vector<std::thread> threads_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTER_LOADS_H_

// Which adapters are in the pool.
//
// Adapters used by running sequences are pinned. The others stay, idle, and their pages are offered
// to whoever wants some: least recently used first. An adapter's pages are taken at once and filled
// aside, so that nobody waits for it but the sequences that use it.

#ifndef ARIL_ADAPTERS_RESIDENCY_H_
#define ARIL_ADAPTERS_RESIDENCY_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "adapters/adapter_set.h"
#include "adapters/resident_adapter.h"
#include "base/clock.h"
#include "base/ids.h"
#include "memory/arena.h"
#include "memory/page_pool.h"

namespace aril {

class Residency;

// Keeps an adapter resident while it exists. Move-only; for the base model it holds nothing.
class AdapterPin {
 public:
  AdapterPin() = default;
  AdapterPin(AdapterPin&& other) noexcept;
  AdapterPin& operator=(AdapterPin&& other) noexcept;
  ~AdapterPin() { Reset(); }
  void Reset();

  // nullptr for the base model.
  const ResidentAdapter* adapter() const;

 private:
  friend class Residency;
  AdapterPin(Residency* residency, AdapterId id) : residency_(residency), id_(id) {}

  Residency* residency_ = nullptr;
  AdapterId id_;
};

// Not thread-safe, except where stated: belongs to the engine's thread. The pool, the arena and the
// clock must outlive this object, and this object its pins.
class Residency {
 public:
  // Runs a function soon: on another thread, or at once. It must run all that it is given.
  using RunAside = std::function<void(std::function<void()>)>;
  static void AtOnce(const std::function<void()>& function) { function(); }

  // `max_pages`: of all adapters in the pool, used or idle.
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
  Residency(DType dtype, PagePool& pool, const Arena& arena, const Clock& clock,
            RunAside run_aside = AtOnce, int64_t max_pages = kUnbounded)
      : dtype_(dtype),
        pool_(pool),
        arena_(arena),
        clock_(clock),
        run_aside_(std::move(run_aside)),
        max_pages_(std::min(max_pages, pool.total())) {}
  // Waits for the copies under way.
  ~Residency();

  // Pages that an adapter takes, or would take. Thread-safe.
  int64_t PagesFor(const AdapterRef& ref) const;
  // In the pool, or on its way there.
  bool IsResident(AdapterId id) const { return id == kBaseModel || resident_.contains(id); }
  // Sequences may use it.
  bool IsReady(AdapterId id) const {
    if (id == kBaseModel) return true;
    const auto found = resident_.find(id);
    return found != resident_.end() && found->second.ready;
  }
  // Ready, and pinned by nobody: its pages may go to others.
  bool IsIdle(AdapterId id) const {
    const auto found = resident_.find(id);
    return found != resident_.end() && found->second.idle.has_value();
  }

  // Pages that adapters may take besides those in use: what they have not, and idle ones'.
  int64_t available_pages() const {
    return max_pages_ - pool_.used(PageUse::kAdapter) + idle_pages_;
  }
  // Pins an adapter, and begins to load it if need be; idle ones go if its pages would be too many.
  // CHECKs that the pool, and the adapters' share of it, have room for it.
  AdapterPin Pin(const AdapterRef& ref);
  // Ready, as anybody may ask. Thread-safe.
  bool IsInPool(AdapterId id) const {
    const std::lock_guard lock(mutex_);
    return in_pool_.contains(id);
  }
  // Whether ErrorOf says anything of any.
  bool HasErrors() const { return num_errors_ > 0; }
  // Why sequences never may: its files were not those of the adapter when they were copied. OK for
  // all others. It goes when nobody has pinned it, and is loaded anew when somebody does then.
  Status ErrorOf(AdapterId id) const {
    const auto found = resident_.find(id);
    return found == resident_.end() ? OkStatus() : found->second.error;
  }
  // Begins to load one that is not resident, as Pin does; it will be idle.
  void Prefetch(const AdapterRef& ref);
  // Makes an idle adapter the most recently used one; does nothing for others.
  void Touch(AdapterId id);

  // Adapters that were being loaded and whose copy has ended are ready from now on, or have an
  // error. How long each of the former took.
  std::vector<Duration> TakeLoaded();
  // Whether TakeLoaded has something to take. Thread-safe.
  bool HasLoaded() const { return num_copied_ > 0; }
  // Called whenever HasLoaded becomes true, on the thread that copies; null: nobody. Thread-safe;
  // the former one is not called any more when this returns.
  void SetListener(std::function<void()> listener);

  // Of all adapters in the pool.
  int64_t unused_bytes() const { return unused_bytes_; }

  int64_t num_loading() const { return num_loading_; }
  int64_t num_loads() const { return num_loads_; }
  int64_t num_loaded() const { return num_loads_ - num_loading_; }
  int64_t num_drops() const { return num_drops_; }

 private:
  friend class AdapterPin;
  struct Entry {
    ResidentAdapter adapter;
    bool ready = false;
    Status error = OkStatus();  // then it never is
    int64_t pins = 0;
    // While it is ready and pins == 0:
    PageOffer offer = {};
    std::optional<std::list<AdapterId>::iterator> idle = {};  // in idle_
  };
  struct Copied {
    AdapterId id;
    Duration took;
    Status status;
  };
  // It may be gone after the next TakeLoaded, if nobody has pinned it by then.
  Entry& Load(const AdapterRef& ref);
  // TakeLoaded, which returns its times when it is called next.
  void KeepLoaded();
  void OnCopied(Copied copied);
  void Unpin(AdapterId id);
  // Offers its pages if nobody uses it; it goes at once if nobody can.
  void OfferIfIdle(AdapterId id, Entry& entry);
  void Withdraw(Entry& entry);
  // Gives the pages of an adapter back that nobody has pinned.
  void Drop(AdapterId id);

  const DType dtype_;
  PagePool& pool_;
  const Arena& arena_;
  const Clock& clock_;
  const RunAside run_aside_;
  const int64_t max_pages_;
  std::list<AdapterId> idle_;  // in the order of their offers, oldest first
  int64_t idle_pages_ = 0;
  int64_t unused_bytes_ = 0;
  std::unordered_map<AdapterId, Entry> resident_;
  std::vector<Duration> load_times_;  // not yet returned by TakeLoaded
  int64_t num_loading_ = 0;
  int64_t num_errors_ = 0;
  int64_t num_loads_ = 0;
  int64_t num_drops_ = 0;

  // What other threads touch.
  mutable std::mutex mutex_;
  std::unordered_set<AdapterId> in_pool_;  // guarded by mutex_
  std::condition_variable all_copied_;
  std::vector<Copied> copied_;           // guarded by mutex_
  int64_t num_copying_ = 0;              // guarded by mutex_
  std::function<void()> listener_;       // guarded by mutex_
  std::atomic<int64_t> num_copied_ = 0;  // the size of copied_
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_RESIDENCY_H_

// Adapters that stay in the pool whether or not a sequence uses them, and what room they leave to
// those that come and go.

#ifndef ARIL_ENGINE_STANDING_PINS_H_
#define ARIL_ENGINE_STANDING_PINS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "adapters/adapter_set.h"
#include "adapters/residency.h"
#include "base/ids.h"
#include "base/status.h"
#include "memory/page_pool.h"

namespace aril {

// Who pins promises that every accepted sequence can still run alone beside what is pinned, and a
// sequence is accepted only if it can: otherwise the head of the queue would wait for ever. So both
// are decided here, under one lock.
//
// Pin, Reserve and what they return are thread-safe; the rest belongs to the engine's thread. Must
// outlive what Pin and Reserve return.
class StandingPins {
 public:
  struct Limits {
    int64_t num_pages = 0;          // of the pool
    int64_t max_context_pages = 0;  // of a sequence of the longest context, without its adapter
    // Of all adapters in the pool.
    int64_t max_adapter_pages = Residency::kUnbounded;
    // That one owner may pin, and that all of them may together.
    int64_t max_owner_pages = Residency::kUnbounded;
    int64_t max_pinned_pages = Residency::kUnbounded;
  };
  explicit StandingPins(const Limits& limits) : limits_(limits) {}
  StandingPins(const StandingPins&) = delete;
  StandingPins& operator=(const StandingPins&) = delete;

  // What an accepted sequence may come to need, kept while this exists. Move-only.
  class Room;
  // InvalidArgument if a sequence of that many pages, and its adapters', never fits beside what its
  // `owner` has pinned; Unavailable if it does not because of what others have.
  struct AdapterPages {
    AdapterId id;
    int64_t num_pages = 0;
  };
  StatusOr<Room> Reserve(std::vector<AdapterPages> adapters, int64_t context_pages,
                         const std::string& owner = "");

  // Keeps an adapter in the pool while what this returns exists; several times is like once. Its
  // copy begins when its pages are free, and nobody joins the running sequences before.
  // Of one whose files turn out to have changed when they are copied, nothing is kept.
  // FailedPrecondition if the longest context, or a sequence that was accepted, would not fit any
  // more, or `owner` (a tenant) would pin more than its share, or all more than theirs; an adapter
  // that several have pinned counts for each.
  StatusOr<std::shared_ptr<const void>> Pin(const AdapterRef& ref, int64_t num_pages,
                                            const std::string& owner = "");

  // Pages that each owner has pinned; those who have none are left out.
  std::map<std::string, int64_t> PagesByOwner() const;

  // Called after a change, on the thread that makes it; null: nobody. The former one is not called
  // any more when this returns.
  void SetListener(std::function<void()> listener);

  // Whether Apply has something to do. Thread-safe.
  bool HasChanged() const { return has_changed_; }
  // Whether pinned adapters are not in the pool yet, or others still are.
  bool HasWork() const { return has_changed_ || !waiting_.empty() || !loading_.empty(); }
  // Pins and unpins at the residency what has changed, as far as there is room: `available_pages`
  // are the pool's, without those that running sequences are to get.
  void Apply(Residency& residency, int64_t available_pages);
  // Pages that pinned adapters wait for.
  int64_t pages_waited_for() const;
  // Pinned, and in the pool or on its way there.
  bool IsHeld(AdapterId id) const { return held_.contains(id); }

 private:
  struct Need {
    std::vector<AdapterPages> adapters;
    int64_t context_pages;
  };
  struct Pinned {
    AdapterRef ref;  // of the base model once Apply has it
    int64_t num_pages = 0;
    int64_t count = 0;
    std::map<std::string, int64_t> by_owner;  // counts
  };
  // mutex_ is held for these.
  // Of those of them that are neither pinned nor `id`.
  int64_t UnpinnedPages(const std::vector<AdapterPages>& adapters, AdapterId id) const;
  bool HasPinned(const std::string& owner, AdapterId id) const;
  int64_t PagesOf(const std::string& owner) const;
  // What these say counts the owner's pins only: what others have is theirs to know.
  Status CheckNeed(const Need& need, const std::string& owner) const;
  Status CheckPin(int64_t num_pages, const std::string& owner) const;
  Status CheckNeeds(AdapterId id, int64_t num_pages) const;
  Status CheckOwner(AdapterId id, int64_t num_pages, const std::string& owner) const;
  void Changed();

  void Unpin(AdapterId id, const std::string& owner);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::list<Need> needs_;                       // guarded by mutex_
  std::map<AdapterId, Pinned> pinned_;          // guarded by mutex_
  int64_t pinned_pages_ = 0;                    // guarded by mutex_; of pinned_
  std::map<std::string, int64_t> owner_pages_;  // guarded by mutex_; likewise
  std::function<void()> listener_;              // guarded by mutex_
  std::atomic<bool> has_changed_ = false;       // since Apply

  // The engine's thread.
  struct Waiting {
    AdapterRef ref;
    int64_t num_pages;
  };
  std::vector<Waiting> waiting_;  // for pages
  std::map<AdapterId, AdapterPin> held_;
  std::set<AdapterId> loading_;  // of held_
};

class StandingPins::Room {
 public:
  Room() = default;
  Room(Room&& other) noexcept : pins_(std::exchange(other.pins_, nullptr)), need_(other.need_) {}
  Room& operator=(Room&& other) noexcept {
    std::swap(pins_, other.pins_);
    std::swap(need_, other.need_);
    return *this;
  }
  ~Room();

 private:
  friend class StandingPins;
  Room(StandingPins* pins, std::list<Need>::iterator need) : pins_(pins), need_(need) {}

  StandingPins* pins_ = nullptr;
  std::list<Need>::iterator need_;
};

}  // namespace aril

#endif  // ARIL_ENGINE_STANDING_PINS_H_

// Which adapters are in the pool.
//
// Adapters used by running sequences are pinned. The others stay, idle: their pages are offered to
// whoever wants them.

#ifndef ARIL_ADAPTERS_RESIDENCY_H_
#define ARIL_ADAPTERS_RESIDENCY_H_

#include <cstdint>
#include <unordered_map>

#include "adapters/adapter_set.h"
#include "adapters/resident_adapter.h"
#include "base/ids.h"
#include "base/thread_pool.h"
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

// Not thread-safe: belongs to the engine's thread. The pool and the arena must outlive this object,
// and this object its pins.
class Residency {
 public:
  Residency(DType dtype, PagePool& pool, const Arena& arena, ThreadPool& threads)
      : dtype_(dtype), pool_(pool), arena_(arena), threads_(threads) {}

  // Pages that an adapter takes, or would take. Thread-safe.
  int64_t PagesFor(const AdapterRef& ref) const;
  bool IsResident(AdapterId id) const { return id == kBaseModel || resident_.contains(id); }

  // Pins an adapter, loading it first if need be. CHECKs that the pool has room for it.
  AdapterPin Pin(const AdapterRef& ref);

  int64_t num_loads() const { return num_loads_; }
  int64_t num_drops() const { return num_drops_; }

 private:
  friend class AdapterPin;
  struct Entry {
    ResidentAdapter adapter;
    int64_t pins = 0;
    PageOffer offer;  // open while pins == 0
  };
  void Unpin(AdapterId id);
  // Gives the pages of an idle adapter back.
  void Drop(AdapterId id);

  const DType dtype_;
  PagePool& pool_;
  const Arena& arena_;
  ThreadPool& threads_;
  std::unordered_map<AdapterId, Entry> resident_;
  int64_t num_loads_ = 0;
  int64_t num_drops_ = 0;
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_RESIDENCY_H_

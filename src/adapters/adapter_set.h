// The adapters that new sequences may use, by id.

#ifndef ARIL_ADAPTERS_ADAPTER_SET_H_
#define ARIL_ADAPTERS_ADAPTER_SET_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adapters/adapter.h"
#include "base/ids.h"
#include "base/status.h"

namespace aril {

// Whether an adapter's files still are those that were opened.
using CheckFiles = std::function<Status()>;

// An adapter, kept while this exists; or the base model, which is none.
struct AdapterRef {
  AdapterId id = kBaseModel;
  std::shared_ptr<const Adapter> adapter;  // null for the base model
  // Any thread; null: nobody else writes to its files.
  std::shared_ptr<const CheckFiles> check_files;
};

// Adapters come and go while sequences run: who has one keeps it, and no id is given twice, so that
// an id never means anything else than it did. Thread-safe.
//
// Of those that can be opened again, the least recently used are closed while all open files
// together are larger than a budget. What somebody has stays open, and counts.
class AdapterSet {
 public:
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
  explicit AdapterSet(int64_t max_open_bytes = kUnbounded) : max_open_bytes_(max_open_bytes) {}

  // Ids count from 0. It stays open until SetOpen says how to open it.
  AdapterId Add(Adapter adapter);
  // One that Find is to open, by `open`, when it is wanted.
  using Open = std::function<StatusOr<Adapter>()>;
  AdapterId AddUnopened(Open open);
  // How to open one of this set again, which may be closed from now on; and how to see whether it
  // is the same while it is open (AdapterRef::check_files). Of an unknown id: no effect.
  void SetOpen(AdapterId id, Open open, CheckFiles check_files);
  // Of an unknown id: no effect.
  void Remove(AdapterId id);

  // The base model for its own id; NotFound for one that is not here. An adapter that cannot be
  // opened is tried again by the next call; only those that want the same one wait for it.
  StatusOr<AdapterRef> Find(AdapterId id) const;
  // nullptr for one that is not here, or that is not open.
  std::shared_ptr<const Adapter> FindOpen(AdapterId id) const;
  // False for one that is not here, or that is not open.
  bool IsOpen(AdapterId id) const;
  // What its AdapterRef::check_files says; OK without one, and for one that is not here.
  Status CheckFilesOf(AdapterId id) const;
  std::vector<AdapterId> Ids() const;
  int64_t size() const;
  // What the open adapters hold.
  int64_t open_bytes() const;
  // Adapters closed for want of room so far.
  int64_t num_closed() const;

 private:
  struct Entry {
    std::mutex opening;  // taken before mutex_
    // The rest is guarded by the set's mutex_.
    Open open;  // empty: it must stay open
    std::shared_ptr<const CheckFiles> check_files;
    std::shared_ptr<const Adapter> adapter;  // null while it is closed
    bool is_here = true;
    std::list<Entry*>::iterator use;  // in uses_, while it is open
  };
  AdapterId Insert(std::shared_ptr<Entry> entry);
  // mutex_ is held.
  static AdapterRef RefTo(AdapterId id, const Entry& entry,
                          std::shared_ptr<const Adapter> adapter) {
    return {id, std::move(adapter), entry.check_files};
  }

  // mutex_ is held for these.
  void Opened(Entry& entry, std::shared_ptr<const Adapter> adapter) const;
  // What is closed is moved to `closed`, to be let go after the lock is.
  using Closed = std::vector<std::shared_ptr<const Adapter>>;
  // The entry's adapter, if it is open, as the last one used.
  std::shared_ptr<const Adapter> Use(const Entry& entry, Closed& closed) const;
  void Close(Entry& entry, Closed& closed) const;
  void CloseUnused(Closed& closed) const;

  const int64_t max_open_bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<AdapterId, std::shared_ptr<Entry>> adapters_;
  // What Find does to whom it finds does not change the set.
  mutable std::list<Entry*> uses_;  // open ones, least recently used first
  mutable int64_t open_bytes_ = 0;
  mutable int64_t num_closed_ = 0;
  int32_t next_id_ = 0;
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_ADAPTER_SET_H_

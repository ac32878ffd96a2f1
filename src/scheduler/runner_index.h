// The runners as placement sees them, indexed so that choosing one takes time logarithmic in their
// number.

#ifndef ARIL_SCHEDULER_RUNNER_INDEX_H_
#define ARIL_SCHEDULER_RUNNER_INDEX_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "wire/cluster.h"

namespace aril::scheduler {

// How much of different adapters a runner may have in use. A step reads each of them once, all of
// its rank: so the number bounds what they cost where ranks are alike, and the share where they are
// not.
struct AdapterLimit {
  int64_t number = INT64_MAX;
  double pool_share = std::numeric_limits<double>::infinity();  // of the runner's pages

  bool operator==(const AdapterLimit&) const = default;
};

// What is known of a runner.
struct RunnerLoad {
  struct InUse {
    int32_t num_sequences = 0;  // of the working set
    int64_t pages = 0;
  };
  wire::RunnerInfo info;
  int64_t reported_pages = 0;  // available, by the last report
  int64_t promised_pages = 0;  // of sequences that no report has shown yet
  int64_t num_sequences = 0;   // the working set: placed here, evicted ones included
  int64_t num_evicted = 0;     // of them, waiting there
  int64_t backlog_tokens = 0;  // of those without a token yet, which are computed first
  bool is_accepting = true;    // neither lost nor being drained
  SequenceId reserved_for;     // this one alone may be placed here; invalid: anybody
  std::unordered_map<AdapterId, InUse> adapters;
  int64_t adapter_pages = 0;  // of them all

  // A sequence of the working set uses it, or does no more; not the base model.
  void Use(AdapterId adapter, int64_t pages);
  void Unuse(AdapterId adapter);
  int64_t available_pages() const { return reported_pages - promised_pages; }
  bool Uses(AdapterId adapter) const { return adapter == kBaseModel || adapters.contains(adapter); }
};

// What a sequence needs.
struct PlacementNeed {
  SequenceId sequence;
  AdapterId adapter;
  int64_t pages = 0;          // of its tokens
  int64_t adapter_pages = 0;  // if the adapter is not in use there
  RunnerId avoid;
  // If not empty, runners of other classes only when none of this one has room.
  std::string numeric_class;
  AdapterLimit adapter_limit;         // of the runner afterwards
  int64_t min_sequences = 0;          // on the runner before
  int64_t max_sequences = INT64_MAX;  // on the runner before
  bool prefers_smallest = false;      // the smallest working set, wherever the adapter is
};

// Choosing looks at one bucket of runners for each size of a working set (at most the batch limit),
// and at no more than kMaxProbes single runners in a bucket. Not thread-safe.
class RunnerIndex {
 public:
  // What every sequence of a runner must have room to grow by before another one joins (Punica,
  // section 5.1).
  // `max_backlog_tokens`: of a runner that takes another sequence, at most.
  explicit RunnerIndex(int64_t headroom_pages, int64_t max_backlog_tokens = INT64_MAX)
      : headroom_pages_(headroom_pages), max_backlog_tokens_(max_backlog_tokens) {}

  bool Has(RunnerId id) const { return runners_.contains(id); }
  const RunnerLoad& Get(RunnerId id) const { return runners_.at(id); }
  void Add(RunnerLoad load);  // not yet there
  void Remove(RunnerId id);
  // Changes what is known, but not the id or the class.
  void Update(RunnerId id, const std::function<void(RunnerLoad&)>& change);

  // The runner with the largest working set that has room: a seat, pages for the sequence's tokens,
  // its adapter's if nobody uses that there, and the headroom of those that run. Ties: more
  // sequences of the same adapter, then fewest pages left, then the highest id. Runners that have
  // evicted sequences have no room: these come first. Nor have those with a backlog: the sequence
  // would have its first token sooner elsewhere, or after a wait.
  std::optional<RunnerId> Find(const PlacementNeed& need) const;
  // Whether this one has room for it.
  bool HasRoom(RunnerId id, const PlacementNeed& need) const;

  // Accepting runners by the size of their working set, full ones included; 0: idle ones.
  const std::map<int64_t, std::set<RunnerId>>& by_size() const { return by_size_; }
  // The accepting runner with most pages to spare, of those with a free seat and not reserved.
  std::optional<RunnerId> Roomiest() const;
  // The accepting runners in turn, full ones included: the one after `last`.
  std::optional<RunnerId> AcceptingAfter(RunnerId last) const;
  // Nobody could be placed, whatever it needs.
  bool IsFull() const { return num_open_ == 0; }
  // Of the runners that take anybody.
  int64_t num_free_seats() const { return num_free_seats_; }
  size_t size() const { return runners_.size(); }

 private:
  static constexpr int kMaxProbes = 8;

  // Pages left when all that run have grown, then the id.
  using Bucket = std::set<std::pair<int64_t, int32_t>>;
  using Buckets = std::map<int64_t, Bucket, std::greater<>>;  // by working set, largest first
  // (working set, sequences of the adapter, id)
  using OfAdapter = std::set<std::tuple<int64_t, int32_t, RunnerId>, std::greater<>>;

  struct Choice {
    RunnerId runner;
    int64_t num_sequences = 0;
  };

  int64_t Room(const RunnerLoad& load) const {
    return load.available_pages() - headroom_pages_ * load.num_sequences;
  }
  static int64_t FreeSeats(const RunnerLoad& load) {
    return load.info.max_running - load.num_sequences;
  }
  bool IsOpen(const RunnerLoad& load) const;
  bool Fits(const RunnerLoad& load, const PlacementNeed& need) const;
  void Insert(const RunnerLoad& load);
  void Erase(const RunnerLoad& load);
  std::optional<Choice> FindAmong(const Buckets& buckets, const PlacementNeed& need) const;
  std::optional<Choice> FindInBucket(int64_t num_sequences, const Bucket& bucket,
                                     const PlacementNeed& need) const;
  std::optional<Choice> FindWithAdapter(const PlacementNeed& need, bool same_class) const;

  const int64_t headroom_pages_;
  const int64_t max_backlog_tokens_;
  std::unordered_map<RunnerId, RunnerLoad> runners_;
  std::map<std::string, Buckets> open_;  // by numeric class
  std::unordered_map<AdapterId, OfAdapter> with_adapter_;
  std::map<int64_t, std::set<RunnerId>> by_size_;
  int64_t num_open_ = 0;
  int64_t num_free_seats_ = 0;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_RUNNER_INDEX_H_

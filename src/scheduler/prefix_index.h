// Which runners have probably computed the beginnings of prompts: so much of what was placed on
// each of them last as its pool can hold. What a runner really has it alone knows, and does not
// say: to be wrong costs what not to look would have cost.

#ifndef ARIL_SCHEDULER_PREFIX_INDEX_H_
#define ARIL_SCHEDULER_PREFIX_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "wire/cluster.h"
#include "wire/prefix_marks.h"

namespace aril::scheduler {

// Not thread-safe.
class PrefixIndex {
 public:
  // As many runners are known for a mark, those that were placed on last.
  static constexpr size_t kMaxHolders = 8;

  // `max_marks`: of all runners, of which each may have its even part. One takes about 200 bytes.
  // `secret`: a random number, so that nobody can tell which marks have equal keys.
  PrefixIndex(size_t max_marks, uint64_t secret) : max_marks_(max_marks), secret_(secret) {}

  // What the marks of a tenant's prompt (wire::MarkPrefixes) are here: caches are a tenant's own,
  // and another one could make marks that are equal to theirs, and learn from where its prompt goes
  // whether it has guessed right.
  std::vector<wire::PrefixMark> KeysOf(int32_t tenant,
                                       std::span<const wire::PrefixMark> marks) const;

  // A prompt of these marks, as KeysOf has them, is computed there from now on. `max_tokens`: that
  // the runner can keep.
  void Add(RunnerId runner, int64_t max_tokens, std::span<const wire::PrefixMark> marks);
  // The runner has gone. Unknown: no effect.
  void Forget(RunnerId runner);

  // Whom the mark was placed on, at most kMaxHolders; the last one is the latest.
  std::span<const RunnerId> HoldersOf(wire::PrefixMark mark) const;
  // How many tokens of a prompt of these marks the runner has; 0: none, or too few to have a mark.
  int64_t TokensOn(RunnerId runner, std::span<const wire::PrefixMark> marks) const;

  // Over all runners.
  size_t num_marks() const { return num_marks_; }

 private:
  struct Entry {
    wire::PrefixMark mark;
    int64_t num_tokens;  // behind the mark before
  };
  using Entries = std::list<Entry>;  // the least recently placed first
  struct Runner {
    Entries by_use;
    std::unordered_map<wire::PrefixMark, Entries::iterator> by_mark;
    int64_t num_tokens = 0;
    int64_t max_tokens = 0;
  };

  struct Holders {
    std::array<RunnerId, kMaxHolders> ids;
    size_t size = 0;

    void Append(RunnerId id) { ids[size++] = id; }
    void Remove(RunnerId id);
  };

  void AddOne(RunnerId id, Runner& runner, const Entry& entry);
  void Drop(RunnerId id, Runner& runner, Entries::iterator entry);
  void Reserve(Runner& runner);
  void Trim(RunnerId id, Runner& runner);

  const size_t max_marks_;
  const uint64_t secret_;
  size_t num_marks_ = 0;
  std::unordered_map<RunnerId, Runner> runners_;
  std::unordered_map<wire::PrefixMark, Holders> holders_;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_PREFIX_INDEX_H_

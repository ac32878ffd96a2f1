// Which two neighbouring symbols merge, into what, and how early.

#ifndef ARIL_TOKENIZER_MERGE_TABLE_H_
#define ARIL_TOKENIZER_MERGE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace aril {

// A hash table from (left, right) to (rank, merged) with linear probing: encoding is a stream of
// lookups that mostly miss the cache, so that one probe should touch one line.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;   // lower merges first
    int32_t merged;  // the symbol that results
  };

  MergeTable() = default;

  void Reserve(size_t num_merges);

  // The last merge of a pair counts.
  void Add(int32_t left, int32_t right, Merge merge);

  // nullptr if the two do not merge.
  const Merge* Find(int32_t left, int32_t right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[SlotOf(KeyOf(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.merge;
  }

  // Calls f(merge) for each, in no particular order.
  template <typename F>
  void ForEach(const F& f) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kEmpty) f(slot.merge);
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no pair: symbols are not negative

  struct Slot {
    uint64_t key = kEmpty;
    Merge merge{};
  };

  static uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  // Where the key is, or would go. The table is never full.
  size_t SlotOf(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    // Fibonacci hashing; the high half of the product holds the well-mixed bits.
    size_t i = (key * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & mask;
    return i;
  }

  void Grow(size_t num_slots);

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t num_merges_ = 0;
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_MERGE_TABLE_H_

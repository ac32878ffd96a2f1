#include "tokenizer/merge_table.h"

#include <bit>
#include <utility>

namespace aril {

void MergeTable::Reserve(size_t num_merges) {
  const size_t num_slots = std::bit_ceil(num_merges * 2 + 16);
  if (num_slots > slots_.size()) Grow(num_slots);
}

void MergeTable::Add(int32_t left, int32_t right, Merge merge) {
  Reserve(num_merges_ + 1);
  Slot& slot = slots_[SlotOf(KeyOf(left, right))];
  if (slot.key == kEmpty) ++num_merges_;
  slot = {KeyOf(left, right), merge};
}

void MergeTable::Grow(size_t num_slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(num_slots));
  for (const Slot& slot : old) {
    if (slot.key != kEmpty) slots_[SlotOf(slot.key)] = slot;
  }
}

}  // namespace aril

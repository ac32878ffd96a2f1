// Distinct integer types for distinct things, so that an adapter is never passed as a page.

#ifndef ARIL_BASE_IDS_H_
#define ARIL_BASE_IDS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>

namespace aril {

template <typename Tag, typename Int = int32_t>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Int value) : value_(value) {}
  constexpr Int value() const { return value_; }
  constexpr bool valid() const { return value_ >= 0; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << id.value_; }

 private:
  Int value_ = -1;
};

// A page of a memory pool.
using PageId = StrongId<struct PageTag>;
// An adapter known to a process; the base model alone is the invalid id (`AdapterId()`).
using AdapterId = StrongId<struct AdapterTag>;
// One token stream being generated: (request, choice).
using SequenceId = StrongId<struct SequenceTag, int64_t>;

inline constexpr AdapterId kBaseModel{};

}  // namespace aril

template <typename Tag, typename Int>
struct std::hash<aril::StrongId<Tag, Int>> {
  size_t operator()(aril::StrongId<Tag, Int> id) const noexcept {
    return std::hash<Int>()(id.value());
  }
};

#endif  // ARIL_BASE_IDS_H_

// How many pages of a pool a sequence takes.

#ifndef ARIL_BASE_SEQUENCE_PAGES_H_
#define ARIL_BASE_SEQUENCE_PAGES_H_

#include <cstdint>

#include "base/checked.h"

namespace aril {

struct SequencePages {
  int64_t page_tokens = 16;
  int64_t state_pages = 0;  // whatever its length (kernels/gated_delta/delta_shape.h)

  int64_t For(int64_t tokens) const { return state_pages + CeilDiv(tokens, page_tokens); }
  // The most tokens for which so many pages suffice; not more than 0: none.
  int64_t TokensIn(int64_t pages) const { return (pages - state_pages) * page_tokens; }

  friend bool operator==(const SequencePages&, const SequencePages&) = default;
};

}  // namespace aril

#endif  // ARIL_BASE_SEQUENCE_PAGES_H_

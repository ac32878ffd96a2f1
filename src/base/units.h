// Sizes and durations as people write them.

#ifndef ARIL_BASE_UNITS_H_
#define ARIL_BASE_UNITS_H_

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace aril {

// "4GiB", "512 MiB", "1.5GB", "4096": a number ≥ 0 with an optional unit, B, KB, MB, GB, TB (powers
// of 1000) or KiB, MiB, GiB, TiB (powers of 1024), in any case. InvalidArgument says what is
// accepted.
StatusOr<int64_t> ParseSizeBytes(const std::string& text);

// "500ms", "30s", "1.5 min", "2h": a number ≥ 0 with a unit; only 0 needs none.
StatusOr<Duration> ParseDuration(const std::string& text);

}  // namespace aril

#endif  // ARIL_BASE_UNITS_H_

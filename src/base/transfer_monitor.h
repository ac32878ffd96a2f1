// Whoever waits for a long transfer, as the one who carries it out sees them.

#ifndef ARIL_BASE_TRANSFER_MONITOR_H_
#define ARIL_BASE_TRANSFER_MONITOR_H_

#include <cstdint>

#include "base/clock.h"

namespace aril {

// Called on the thread that transfers.
class TransferMonitor {
 public:
  virtual ~TransferMonitor() = default;
  // The transfer is to end soon, with kCancelled. Cheap; asked often.
  virtual bool IsCancelled() const = 0;
  // Bytes that have arrived, of `total_bytes` as far as is known by now: it may grow, and
  // `done_bytes` may fall when something has to be fetched again.
  virtual void OnProgress(int64_t done_bytes, int64_t total_bytes) = 0;
  // Lets time pass before another attempt. False if the transfer was cancelled meanwhile.
  virtual bool Wait(Duration duration) = 0;
};

}  // namespace aril

#endif  // ARIL_BASE_TRANSFER_MONITOR_H_

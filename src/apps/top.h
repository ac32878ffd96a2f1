// `aril top`: a live view of a running server.

#ifndef ARIL_APPS_TOP_H_
#define ARIL_APPS_TOP_H_

#include <cstdint>
#include <ostream>

#include "apps/server.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

struct TopOptions {
  Server server;
  Duration interval = std::chrono::seconds(1);
  int64_t iterations = 0;  // 0: until it is stopped
};

// Draws on the terminal, which is as before when it ends; where standard output is none, prints to
// `out`, a paragraph each time. There an error of the server ends it; on the terminal it is shown
// until the server answers again.
Status Top(const TopOptions& options, std::ostream& out, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_TOP_H_

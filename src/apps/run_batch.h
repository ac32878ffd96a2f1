// `aril run-batch`: a file of requests, answered in any order by what would serve them.

#ifndef ARIL_APPS_RUN_BATCH_H_
#define ARIL_APPS_RUN_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

#include "apps/serve.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

struct BatchOptions {
  std::string input;
  std::string output;
  // Goes on with the output: what it has answers to is left out, and what failed is asked again.
  bool resumes = false;
  int64_t max_in_flight = 1;
  size_t max_line_bytes = size_t{64} << 20;
  // For how long nothing is asked again that was answered with 429 or 503, unless others end.
  Duration retry_after = std::chrono::seconds(1);
};

struct BatchCounts {
  int64_t num_answered = 0;  // with 200
  int64_t num_failed = 0;    // with something else, or no requests
  int64_t num_skipped = 0;   // the output had their answers
  int64_t num_tokens = 0;    // of completions
};

// Asks for all of it, on the calling thread, and appends what becomes of each request to the output
// as it comes. Shows progress on `out`. InvalidArgument names the flag: an input that cannot be
// read, an output that is there already, or is not one. Unavailable if the output cannot be written
// any more.
StatusOr<BatchCounts> RunBatch(const BatchOptions& options, const AskFunction& ask,
                               const Clock& clock, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_RUN_BATCH_H_

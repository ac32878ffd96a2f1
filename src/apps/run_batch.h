// `aril run-batch`: a file of requests, answered in any order by what would serve them.

#ifndef ARIL_APPS_RUN_BATCH_H_
#define ARIL_APPS_RUN_BATCH_H_

#include <cstdint>
#include <fstream>
#include <ostream>
#include <set>
#include <string>

#include "apps/serve.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

// The input, and the output, which what becomes of each request is appended to. Move-only.
struct BatchFiles {
  std::string input_path, output_path;
  std::ifstream input;
  std::ofstream output;
  uint64_t num_lines = 0;          // of the input; 0: it is no file that could be read twice
  std::set<std::string> answered;  // requests that the output has answers to

  // `resumes`: goes on with an output that is there; of its last line a part is cut off.
  // InvalidArgument names the flag: an input that cannot be read, an output that is there already,
  // or is none of this command, or cannot be written.
  static StatusOr<BatchFiles> Open(const std::string& input, const std::string& output,
                                   bool resumes);
};

struct BatchCounts {
  int64_t num_answered = 0;  // with 200
  int64_t num_failed = 0;    // with something else, or no requests
  int64_t num_skipped = 0;   // the output had their answers
  int64_t num_tokens = 0;    // that were generated
};

struct BatchPace {
  int64_t max_in_flight = 1;  // requests
  // After a request that there was no room for (429, 503) although no other was in work.
  Duration pause = std::chrono::seconds(1);
};

// Asks for all of it, on the calling thread, and shows progress on `out`. What there is no room for
// is asked again when another request has been answered, or after a pause, a few times. Unavailable
// if the input cannot be read any more, or the output not be written.
StatusOr<BatchCounts> RunBatch(BatchFiles files, const BatchPace& pace, const AskFunction& ask,
                               const Clock& clock, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_RUN_BATCH_H_

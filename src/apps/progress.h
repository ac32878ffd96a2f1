// Progress of long work: a bar that redraws itself on a terminal, plain lines in a pipe.

#ifndef ARIL_APPS_PROGRESS_H_
#define ARIL_APPS_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "base/clock.h"

namespace aril {

// "1.5 GB", in powers of 1000.
std::string FormatBytes(uint64_t bytes);

// Counts bytes, or anything else, towards a total. Not thread-safe.
class Progress {
 public:
  struct Options {
    std::string label;  // "writing tiny"
    uint64_t total = 0;
    std::string unit;  // "requests"; empty: bytes
    bool is_terminal = false;
  };
  // `out` and `clock` must outlive this.
  Progress(const Options& options, std::ostream& out, const Clock& clock);

  // Shows what is done, rate and remaining time; at most ten times a second on a terminal, once per
  // tenth of the work, but at most once a second, otherwise.
  void Add(uint64_t amount);
  // The last line: how much, in what time, how fast.
  void Finish();

 private:
  void Draw();
  std::string State() const;
  std::string Amount(uint64_t amount) const;
  std::string Rate(double seconds) const;
  double Seconds() const;

  const Options options_;
  std::ostream& out_;
  const Clock& clock_;
  const TimePoint start_;
  TimePoint last_drawn_;
  uint64_t done_ = 0;
  uint64_t tenths_shown_ = 0;
};

}  // namespace aril

#endif  // ARIL_APPS_PROGRESS_H_

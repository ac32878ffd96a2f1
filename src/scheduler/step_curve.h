// How long a decode step takes, by the number of sequences in it: measured points, lines between
// them. What "lightly loaded" and "flat" mean is derived from it.

#ifndef ARIL_SCHEDULER_STEP_CURVE_H_
#define ARIL_SCHEDULER_STEP_CURVE_H_

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace aril::scheduler {

class StepCurve {
 public:
  struct Point {
    int64_t batch = 1;
    double seconds = 0;
  };

  // Points by ascending batch, from 1 on; times positive and not falling. InvalidArgument if not.
  static StatusOr<StepCurve> Make(std::vector<Point> points);

  // Beyond the last point the last line goes on; of one point alone it is flat. `batch` >= 1.
  double Seconds(int64_t batch) const;

  // The end of the flat part: the largest batch up to `max_batch` whose step takes at most
  // (1 + slack) times as long as that of one sequence. A sequence that joins below it costs the
  // others at most that much, and saves its own runner a whole step.
  int64_t FlatBatch(double slack, int64_t max_batch) const;

 private:
  explicit StepCurve(std::vector<Point> points) : points_(std::move(points)) {}

  std::vector<Point> points_;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_STEP_CURVE_H_

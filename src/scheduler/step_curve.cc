#include "scheduler/step_curve.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/strings.h"

namespace aril::scheduler {

StatusOr<StepCurve> StepCurve::Make(std::vector<Point> points) {
  if (points.empty() || points.front().batch != 1) {
    return InvalidArgument("a step-time curve must begin with a batch of 1");
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    const bool is_rising =
        i == 0 || (point.batch > points[i - 1].batch && point.seconds >= points[i - 1].seconds);
    if (!std::isfinite(point.seconds) || point.seconds <= 0 || !is_rising) {
      return InvalidArgument(StrCat("step-time curve: batch ", point.batch, " with ", point.seconds,
                                    " s: batches must ascend, and times must be "
                                    "positive and not fall"));
    }
  }
  return StepCurve(std::move(points));
}

double StepCurve::Seconds(int64_t batch) const {
  CHECK_GE(batch, 1);
  if (points_.size() == 1) return points_[0].seconds;
  auto right = std::lower_bound(points_.begin(), points_.end(), batch,
                                [](const Point& p, int64_t value) { return p.batch < value; });
  right = std::clamp(right, points_.begin() + 1, points_.end() - 1);
  const Point& a = *(right - 1);
  const double slope = (right->seconds - a.seconds) / static_cast<double>(right->batch - a.batch);
  return a.seconds + slope * static_cast<double>(batch - a.batch);
}

int64_t StepCurve::FlatBatch(double slack, int64_t max_batch) const {
  CHECK_GE(max_batch, 1);
  const double limit = (1 + slack) * Seconds(1);
  int64_t low = 1, high = max_batch;  // times do not fall
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (Seconds(middle) <= limit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace aril::scheduler

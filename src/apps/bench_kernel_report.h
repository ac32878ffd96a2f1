// What `aril bench kernels` prints of its timings: a table for each group of kernels that share
// operands, and all of it as JSON.

#ifndef ARIL_APPS_BENCH_KERNEL_REPORT_H_
#define ARIL_APPS_BENCH_KERNEL_REPORT_H_

#include <ostream>
#include <string>
#include <vector>

#include "apps/bench_kernel_work.h"
#include "base/json.h"
#include "base/status.h"

namespace aril {

// What one pass found for a case.
struct KernelTiming {
  double seconds = 0;  // of a call
  double limit = 0;    // what it takes at best
  bool is_memory_bound = false;
  // Of as many kernels that do nothing; 0: not measured, and in no table.
  double empty_seconds = 0;
};

// `bytes` and `operations` against what a machine can do of each in a second.
KernelTiming CompareWithLimit(const KernelWork& work, double seconds, double bytes_per_s,
                              double operations_per_s);

class KernelReport {
 public:
  explicit KernelReport(std::ostream& out) : out_(out) {}

  // Prints medians of the passes: `timings` of each case, one for each pass. `title` says what they
  // have in common.
  void Add(const std::string& title, const std::vector<KernelWork>& cases,
           const std::vector<std::vector<KernelTiming>>& timings);

  // All that was added, and `run`, which says where and how. An empty path: nowhere.
  Status WriteJson(const std::string& path, Json::Object run);

 private:
  std::ostream& out_;
  Json::Array results_;
};

}  // namespace aril

#endif  // ARIL_APPS_BENCH_KERNEL_REPORT_H_

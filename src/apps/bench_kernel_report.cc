#include "apps/bench_kernel_report.h"

#include <algorithm>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/output_file.h"
#include "apps/text_table.h"

namespace aril {
namespace {

// The medians of a case's passes.
struct Summary {
  double seconds, empty_seconds;
  double share, worst_share, best_share;  // of the limit
  double ratio;                           // to the case that it is compared to
  bool is_memory_bound;
};

Summary Summarize(const std::vector<KernelTiming>& timings,
                  const std::vector<KernelTiming>& compared_to) {
  std::vector<double> seconds, empty, shares, ratios;
  size_t memory_bound = 0;
  for (size_t pass = 0; pass < timings.size(); ++pass) {
    const KernelTiming& timing = timings[pass];
    seconds.push_back(timing.seconds);
    empty.push_back(timing.empty_seconds);
    shares.push_back(timing.limit / timing.seconds);
    ratios.push_back(timing.seconds / compared_to[pass].seconds);
    memory_bound += timing.is_memory_bound ? 1 : 0;
  }
  const auto [worst, best] = std::ranges::minmax(shares);
  return {Median(std::move(seconds)), Median(std::move(empty)),         Median(shares), worst, best,
          Median(std::move(ratios)),  2 * memory_bound > timings.size()};
}

}  // namespace

KernelTiming CompareWithLimit(const KernelWork& work, double seconds, double bytes_per_s,
                              double operations_per_s) {
  const double moving = work.bytes / bytes_per_s;
  const double calculating = work.operations / operations_per_s;
  return {.seconds = seconds,
          .limit = std::max(moving, calculating),
          .is_memory_bound = moving > calculating};
}

void KernelReport::Add(const std::string& title, const std::vector<KernelWork>& cases,
                       const std::vector<std::vector<KernelTiming>>& timings) {
  const bool has_empty = timings.front().front().empty_seconds > 0;
  std::vector<std::vector<std::string>> lines = {{title, "operands", "limit", "rows", "us", "GB/s",
                                                  "GFLOP/s", "of limit", "worst", "best", "ratio"}};
  if (has_empty) lines.front().push_back("empty us");
  for (size_t i = 0; i < cases.size(); ++i) {
    const KernelWork& work = cases[i];
    const Summary found = Summarize(timings[i], timings[work.compared_to]);
    const std::string bound = found.is_memory_bound ? "memory" : "arithmetic";
    lines.push_back({work.kernel, work.operands, bound, std::to_string(work.rows),
                     Decimal(found.seconds * 1e6, 1), Decimal(work.bytes / found.seconds / 1e9, 1),
                     Decimal(work.operations / found.seconds / 1e9, 0), Decimal(found.share, 2),
                     Decimal(found.worst_share, 2), Decimal(found.best_share, 2),
                     work.compared_to == i ? "" : Decimal(found.ratio, 2)});
    Json::Object result = {{"shape", title},
                           {"kernel", work.kernel},
                           {"operands", work.operands},
                           {"rows", work.rows},
                           {"bound", bound},
                           {"seconds", found.seconds},
                           {"bytes", work.bytes},
                           {"operations", work.operations},
                           {"of_limit", found.share},
                           {"ratio", found.ratio}};
    if (has_empty) {
      lines.back().push_back(Decimal(found.empty_seconds * 1e6, 1));
      result.push_back({"empty_seconds", found.empty_seconds});
    }
    results_.push_back(std::move(result));
  }
  out_ << "\n" << AlignColumns(lines, 3) << std::flush;
}

Status KernelReport::WriteJson(const std::string& path, Json::Object run) {
  if (path.empty()) return OkStatus();
  run.push_back({"results", Json(std::move(results_))});
  return WriteTextFile("--json", path, Json(std::move(run)).Dump() + "\n");
}

}  // namespace aril

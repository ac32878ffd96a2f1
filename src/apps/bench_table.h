// The table that `aril bench serve` prints.

#ifndef ARIL_APPS_BENCH_TABLE_H_
#define ARIL_APPS_BENCH_TABLE_H_

#include <string>
#include <vector>

#include "apps/bench_report.h"

namespace aril {

// A row of medians for each result, with throughput relative to `base` where that was run.
// `sweep_parameter` heads the first column; empty: there is none.
std::string FormatTable(const std::string& sweep_parameter,
                        const std::vector<BenchResult>& results);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_TABLE_H_

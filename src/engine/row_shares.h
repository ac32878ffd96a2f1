// Whose prompts get the rows that a step has for prompts, when tenants share them.

#ifndef ARIL_ENGINE_ROW_SHARES_H_
#define ARIL_ENGINE_ROW_SHARES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace aril {

struct RowDemand {
  int64_t rows = 0;   // wanted, at least one
  double weight = 1;  // above 0
};

// Weighted max-min fairness in whole rows: what each gets of `num_rows`, which has at least one for
// each and gives it. Who wants no more than its part gets all that it wants, and what it leaves is
// divided among the others; so nobody gets less for others' wanting more than their parts.
std::vector<int64_t> ShareRows(int64_t num_rows, std::span<const RowDemand> demands);

}  // namespace aril

#endif  // ARIL_ENGINE_ROW_SHARES_H_

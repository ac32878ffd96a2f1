#include "engine/row_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace aril {

std::vector<int64_t> ShareRows(int64_t num_rows, std::span<const RowDemand> demands) {
  CHECK_GE(num_rows, std::ssize(demands));
  // By wanted rows per weight, least first: once somebody does not get all, nobody after it does.
  std::vector<size_t> order(demands.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return static_cast<double>(demands[a].rows) * demands[b].weight <
           static_cast<double>(demands[b].rows) * demands[a].weight;
  });
  std::vector<double> weights_from(demands.size());  // of those from here on in the order
  double sum = 0;
  for (size_t k = order.size(); k-- > 0;) weights_from[k] = sum += demands[order[k]].weight;

  std::vector<int64_t> shares(demands.size());
  for (size_t k = 0; k < order.size(); ++k) {
    const RowDemand& demand = demands[order[k]];
    CHECK_GE(demand.rows, 1);
    const auto others = static_cast<int64_t>(order.size() - k - 1);
    const double part = static_cast<double>(num_rows) * (demand.weight / weights_from[k]);
    const auto whole = static_cast<int64_t>(std::ceil(part));
    const int64_t share = std::min(demand.rows, std::clamp<int64_t>(whole, 1, num_rows - others));
    shares[order[k]] = share;
    num_rows -= share;
  }
  return shares;
}

}  // namespace aril

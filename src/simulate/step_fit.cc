#include "simulate/step_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>

#include "base/strings.h"

namespace aril::simulate {
namespace {

struct Term {
  const char* name;
  double StepModel::*coefficient;
  int64_t StepWork::*amount;  // null: one of each step
};
constexpr Term kTerms[] = {{"steps", &StepModel::base, nullptr},
                           {"prefill tokens", &StepModel::prefill_token, &StepWork::prefill_tokens},
                           {"decodes", &StepModel::sequence, &StepWork::decodes},
                           {"context tokens", &StepModel::context_token, &StepWork::context_tokens},
                           {"adapter bytes", &StepModel::adapter_byte, &StepWork::adapter_bytes}};
constexpr size_t kNumTerms = std::size(kTerms);

using Row = std::array<double, kNumTerms>;

// Below this a pivot of normal equations, whose diagonal is 1, is rounding.
constexpr double kSingular = 1e-10;

// With so many free rows.
double Amount(const Term& term, const StepWork& work, double free_rows) {
  if (term.amount == nullptr) return 1;
  if (term.amount == &StepWork::prefill_tokens) {
    return StepModel{.free_rows = free_rows}.PaidPrefillTokens(work);
  }
  return static_cast<double>(work.*term.amount);
}

// The least squares of rows * x = 1 over the columns of `subset`, the others 0; nullopt if they
// depend on one another.
std::optional<Row> Solve(const std::vector<Row>& rows, size_t subset) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < kNumTerms; ++i) {
    if ((subset >> i & 1) != 0) columns.push_back(i);
  }
  const size_t n = columns.size();
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1));
  for (const Row& row : rows) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) a[i][j] += row[columns[i]] * row[columns[j]];
      a[i][n] += row[columns[i]];
    }
  }
  // Gauss and Jordan; positive definite, so that pivots are on the diagonal.
  for (size_t i = 0; i < n; ++i) {
    if (a[i][i] < kSingular) return std::nullopt;
    for (size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double factor = a[k][i] / a[i][i];
      for (size_t j = i; j <= n; ++j) a[k][j] -= factor * a[i][j];
    }
  }
  Row solution = {};
  for (size_t i = 0; i < n; ++i) solution[columns[i]] = a[i][n] / a[i][i];
  return solution;
}

double SquaredError(const std::vector<Row>& rows, const Row& solution) {
  double sum = 0;
  for (const Row& row : rows) {
    double value = -1;
    for (size_t i = 0; i < kNumTerms; ++i) value += row[i] * solution[i];
    sum += value * value;
  }
  return sum;
}

struct Fit {
  StepModel model;
  double squared_error = 0;  // the sum, relative
};

// The best with so many free rows.
StatusOr<Fit> FitWith(const std::vector<MeasuredStep>& steps, double free_rows) {
  // Relative to what was measured, and in units in which each column has length 1.
  Row lengths = {};
  std::vector<Row> rows;
  for (const MeasuredStep& step : steps) {
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < kNumTerms; ++i) {
      row[i] = Amount(kTerms[i], step.work, free_rows) / step.seconds;
      lengths[i] += row[i] * row[i];
    }
  }
  for (size_t i = 0; i < kNumTerms; ++i) {
    if (lengths[i] == 0) {
      return InvalidArgument(StrCat("a step model needs a measured step with ", kTerms[i].name));
    }
    for (Row& row : rows) row[i] /= std::sqrt(lengths[i]);
  }
  if (!Solve(rows, (size_t{1} << kNumTerms) - 1)) {
    return InvalidArgument("the measured steps differ too little to tell what takes their time");
  }
  // Where a coefficient would be below 0, the best is 0: all subsets are tried, they are few. A
  // step of nothing takes time, too.
  std::optional<Row> best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t subset = 1; subset < size_t{1} << kNumTerms; subset += 2) {
    const std::optional<Row> solution = Solve(rows, subset);
    if (!solution || std::ranges::any_of(*solution, [](double x) { return x < 0; })) continue;
    const double error = SquaredError(rows, *solution);
    if ((*solution)[0] > 0 && error < least) {
      least = error;
      best = solution;
    }
  }
  Fit fit = {.model = {.free_rows = free_rows}, .squared_error = least};
  for (size_t i = 0; i < kNumTerms; ++i) {
    fit.model.*kTerms[i].coefficient = (*best)[i] / std::sqrt(lengths[i]);
  }
  return fit;
}

// Prompts of so many tokens were measured, each number once.
std::set<int64_t> PrefillLengths(const std::vector<MeasuredStep>& steps) {
  std::set<int64_t> lengths;
  for (const MeasuredStep& step : steps) {
    if (step.work.prefill_tokens > 0) lengths.insert(step.work.prefill_tokens);
  }
  return lengths;
}

}  // namespace

StatusOr<StepFit> FitStepModel(const std::vector<MeasuredStep>& steps) {
  if (steps.size() < kNumTerms) {
    return InvalidArgument(
        StrCat("a step model needs ", kNumTerms, " measured steps, these are ", steps.size()));
  }
  ASSIGN_OR_RETURN(Fit best, FitWith(steps, 0));
  // Every number of free rows that leaves the longest prompt something to pay for. One length says
  // nothing about them: any number would fit it.
  const std::set<int64_t> lengths = PrefillLengths(steps);
  for (int64_t rows = 1; lengths.size() > 1 && rows < *lengths.rbegin(); ++rows) {
    const StatusOr<Fit> fit = FitWith(steps, static_cast<double>(rows));
    if (fit.ok() && fit->squared_error < best.squared_error) best = *fit;
  }
  StepFit fit = {.model = best.model};
  for (const MeasuredStep& step : steps) {
    double seconds = 0;
    for (const Term& term : kTerms) {
      seconds += best.model.*term.coefficient * Amount(term, step.work, best.model.free_rows);
    }
    fit.worst_error = std::max(fit.worst_error, std::abs(seconds / step.seconds - 1));
  }
  return fit;
}

}  // namespace aril::simulate

#include "apps/bench_table.h"

#include <functional>

#include "apps/text_table.h"

namespace aril {
namespace {

struct Row {
  const BenchResult& result;
  BenchRun median;
  double base_output_tokens_per_s;  // 0: base was not run
};

struct Column {
  const char* top;
  const char* head;
  std::function<std::string(const Row&)> cell;
};

constexpr char kMissing[] = "-";

// A number of the median run.
Column RunColumn(const char* top, const char* head, double BenchRun::*number, int digits) {
  return {top, head, [=](const Row& row) { return Decimal(row.median.*number, digits); }};
}

Column LatencyColumn(const char* top, const char* head, Latency BenchRun::*latency,
                     double Latency::*number) {
  return {top, head, [=](const Row& row) { return Decimal(row.median.*latency.*number, 1); }};
}

Column StepColumn(const char* top, const char* head, double StepShape::*number, int digits) {
  return {top, head, [=](const Row& row) {
            return row.median.steps ? Decimal((*row.median.steps).*number, digits) : kMissing;
          }};
}

std::string OfBase(const Row& row) {
  if (row.base_output_tokens_per_s <= 0) return kMissing;
  return Decimal(row.median.output_tokens_per_s / row.base_output_tokens_per_s, 2);
}

std::string FoundInPool(const Row& row) {
  return row.median.found_in_pool ? Decimal(*row.median.found_in_pool, 3) : kMissing;
}

std::vector<Column> Columns() {
  return {RunColumn("", "req/s", &BenchRun::requests_per_s, 2),
          RunColumn("output", "tok/s", &BenchRun::output_tokens_per_s, 1),
          RunColumn("total", "tok/s", &BenchRun::total_tokens_per_s, 1),
          {"of", "base", OfBase},
          LatencyColumn("request", "mean ms", &BenchRun::request, &Latency::mean_ms),
          LatencyColumn("1st token", "mean ms", &BenchRun::first_token, &Latency::mean_ms),
          LatencyColumn("", "p50", &BenchRun::first_token, &Latency::p50_ms),
          LatencyColumn("", "p99", &BenchRun::first_token, &Latency::p99_ms),
          LatencyColumn("next token", "mean ms", &BenchRun::between_tokens, &Latency::mean_ms),
          LatencyColumn("", "p50", &BenchRun::between_tokens, &Latency::p50_ms),
          LatencyColumn("", "p99", &BenchRun::between_tokens, &Latency::p99_ms),
          RunColumn("in", "SLO", &BenchRun::slo_attainment, 3),
          RunColumn("satis-", "fied", &BenchRun::satisfaction, 3),
          RunColumn("in SLO", "req/s", &BenchRun::goodput_per_s, 2),
          LatencyColumn("sent late", "max ms", &BenchRun::lateness, &Latency::max_ms),
          StepColumn("adapters", "max", &StepShape::max_adapters, 0),
          StepColumn("/step", "mean", &StepShape::mean_adapters, 1),
          StepColumn("rows", "/step", &StepShape::mean_rows, 1),
          RunColumn("adapters", "asked for", &BenchRun::adapters_asked_for, 0),
          StepColumn("", "loaded", &StepShape::adapter_loads, 0),
          {"found", "in pool", FoundInPool},
          {"", "refused", [](const Row& row) { return std::to_string(row.median.num_refused); }},
          LatencyColumn("in", "p99 ms", &BenchRun::refusal, &Latency::p99_ms),
          {"", "errors", [](const Row& row) { return std::to_string(row.median.num_errors); }}};
}

// That of the base model alone under the same load, or 0 if that was not run.
double BaseThroughput(const std::vector<BenchResult>& results, const std::string& sweep_value) {
  for (const BenchResult& result : results) {
    if (result.is_base() && result.sweep_value == sweep_value) {
      return Median(result.runs).output_tokens_per_s;
    }
  }
  return 0;
}

}  // namespace

std::string FormatTable(const std::string& sweep_parameter,
                        const std::vector<BenchResult>& results) {
  std::vector<Column> columns = Columns();
  columns.insert(columns.begin(),
                 {"", "popularity", [](const Row& row) { return row.result.popularity(); }});
  if (!sweep_parameter.empty()) {
    columns.insert(columns.begin(), {"", sweep_parameter.c_str(),
                                     [](const Row& row) { return row.result.sweep_value; }});
  }
  std::vector<std::vector<std::string>> lines(2);
  for (const Column& column : columns) {
    lines[0].emplace_back(column.top);
    lines[1].emplace_back(column.head);
  }
  for (const BenchResult& result : results) {
    const Row row = {result, Median(result.runs), BaseThroughput(results, result.sweep_value)};
    lines.emplace_back();
    for (const Column& column : columns) lines.back().push_back(column.cell(row));
  }
  return AlignColumns(lines, sweep_parameter.empty() ? 1 : 2);
}

}  // namespace aril

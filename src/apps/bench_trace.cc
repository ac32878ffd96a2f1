#include "apps/bench_trace.h"

#include <algorithm>

#include "apps/bench_trace_formats.h"
#include "base/file.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kMaxServegenLengthsBytes = size_t{16} << 20;

void CountFromTheFirst(Trace* trace) {
  std::vector<TraceRequest>& requests = trace->requests;
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& a, const auto& b) { return a.arrival < b.arrival; });
  const Duration first = requests.front().arrival;
  for (TraceRequest& request : requests) request.arrival -= first;
}

StatusOr<Trace> ParseByFirstLine(std::string_view text, std::string_view servegen_lengths,
                                 const TraceOptions& options) {
  std::string_view first_line;
  LineReader(text).Next(&first_line);
  if (first_line.substr(0, 1) == "{") return ParseJsonLinesTrace(text, options);
  if (IsServegenLine(first_line)) return ParseServegenTrace(text, servegen_lengths, options);
  return ParseCsvTrace(text, options);
}

// "…/chunk-0-dataset.json" for "…/chunk-0-trace.csv", else "".
std::string ServegenLengthsPath(const std::string& path) {
  static constexpr std::string_view kSuffix = "-trace.csv";
  if (path.size() < kSuffix.size() ||
      path.compare(path.size() - kSuffix.size(), kSuffix.size(), kSuffix) != 0) {
    return "";
  }
  return path.substr(0, path.size() - kSuffix.size()) + "-dataset.json";
}

}  // namespace

bool LineReader::Next(std::string_view* line) {
  if (rest_.empty()) return false;
  const size_t end = std::min(rest_.find('\n'), rest_.size());
  *line = rest_.substr(0, end);
  if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  ++line_number_;
  return true;
}

Status LineReader::Error(const std::string& what) const {
  return InvalidArgument(StrCat("line ", line_number_, ": ", what));
}

StatusOr<Trace> ParseTrace(std::string_view text, std::string_view servegen_lengths,
                           const TraceOptions& options) {
  ASSIGN_OR_RETURN(Trace trace, ParseByFirstLine(text, servegen_lengths, options));
  if (trace.requests.empty()) return InvalidArgument("there is no request in it");
  CountFromTheFirst(&trace);
  return trace;
}

StatusOr<Trace> ReadTrace(const std::string& path, const TraceOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxTraceBytes));
  std::string lengths;
  if (const std::string lengths_path = ServegenLengthsPath(path); FileExists(lengths_path)) {
    ASSIGN_OR_RETURN(lengths, ReadFile(lengths_path, kMaxServegenLengthsBytes));
  }
  auto trace = ParseTrace(text, lengths, options);
  if (!trace.ok()) return Annotate(trace.status(), path);
  return trace;
}

StatusOr<int64_t> DropLongRequests(int64_t max_tokens, Trace* trace) {
  const size_t num_before = trace->requests.size();
  std::erase_if(trace->requests, [&](const TraceRequest& request) {
    return request.prompt_tokens + request.output_tokens > max_tokens;
  });
  if (trace->requests.empty()) {
    return InvalidArgument(StrCat("all ", num_before, " requests of the trace have more than ",
                                  max_tokens, " tokens"));
  }
  CountFromTheFirst(trace);
  return static_cast<int64_t>(num_before - trace->requests.size());
}

Status TakeAdapters(const Trace& adapters, Trace* trace) {
  if (!adapters.has_adapters) {
    return InvalidArgument(StrCat("a trace of the format ", adapters.format,
                                  " records no adapters; alibaba and alibaba-lora do"));
  }
  for (size_t i = 0; i < trace->requests.size(); ++i) {
    trace->requests[i].adapter = adapters.requests[i % adapters.requests.size()].adapter;
  }
  trace->has_adapters = true;
  return OkStatus();
}

}  // namespace aril

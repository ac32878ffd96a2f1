// The formats behind bench_trace.h, and what their parsers share.

#ifndef ARIL_APPS_BENCH_TRACE_FORMATS_H_
#define ARIL_APPS_BENCH_TRACE_FORMATS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/bench_trace.h"

namespace aril {

// Takes the lines off a text one by one, without their ends ("\n" or "\r\n").
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}
  // False at the end. A last line need not end in "\n".
  bool Next(std::string_view* line);
  // Of the line that Next gave, from 1.
  int64_t line_number() const { return line_number_; }
  // InvalidArgument("line N: `what`").
  Status Error(const std::string& what) const;

 private:
  std::string_view rest_;
  int64_t line_number_ = 0;
};

// Time since some fixed point in nanoseconds, as the parsers below leave it: at most this.
inline constexpr int64_t kMaxTraceNs = int64_t{1} << 62;

// Requests in the order of the file, arrivals not yet counted from the first. They stop at
// options.max_requests, and may find none.
StatusOr<Trace> ParseCsvTrace(std::string_view text, const TraceOptions& options);
StatusOr<Trace> ParseJsonLinesTrace(std::string_view text, const TraceOptions& options);
StatusOr<Trace> ParseServegenTrace(std::string_view text, std::string_view lengths,
                                   const TraceOptions& options);

// Whether a first line is one of chunk-N-trace.csv, which has no header.
bool IsServegenLine(std::string_view line);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_TRACE_FORMATS_H_

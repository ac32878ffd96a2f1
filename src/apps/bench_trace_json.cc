// The traces that are JSON lines: mooncake and LLMServingSim's ShareGPT.

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/bench_lengths.h"
#include "apps/bench_trace_formats.h"
#include "base/checked.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

// A line of the longest prompts, as ids, is far below.
constexpr JsonLimits kLineLimits = {.max_bytes = 16 << 20, .max_depth = 8};

struct JsonFormat {
  const char* name;
  const char* time;
  double unit_ns;  // of the time
  const char* prompt;
  const char* output;
};

constexpr JsonFormat kFormats[] = {{"mooncake", "timestamp", 1e6, "input_length", "output_length"},
                                   {"sharegpt", "arrival_time_ns", 1, "input_toks", "output_toks"}};

StatusOr<int64_t> Tokens(const Json& line, const char* name) {
  const Json* value = line.Find(name);
  const int64_t* count = value != nullptr ? value->AsInt() : nullptr;
  if (count != nullptr && *count >= 0 && *count <= kMaxRequestTokens) {
    return std::max<int64_t>(*count, 1);
  }
  return InvalidArgument(
      StrCat("`", name, "`: expected a number of tokens up to ", kMaxRequestTokens));
}

// As many as the prompt has, the last one not full; or none.
StatusOr<std::vector<int32_t>> Blocks(const Json& line, int64_t prompt_tokens) {
  std::vector<int32_t> blocks;
  const Json* value = line.Find("hash_ids");
  if (value == nullptr) return blocks;
  const Json::Array* ids = value->AsArray();
  const int64_t expected = CeilDiv(prompt_tokens, kTraceBlockTokens);
  if (ids != nullptr && ids->empty()) return blocks;
  if (ids == nullptr || std::ssize(*ids) != expected) {
    return InvalidArgument(StrCat("`hash_ids`: expected a list of ", expected, " blocks of ",
                                  kTraceBlockTokens, " tokens"));
  }
  for (const Json& item : *ids) {
    const int64_t* id = item.AsInt();
    if (id == nullptr || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("`hash_ids`: expected integers from 0 to 2147483647");
    }
    blocks.push_back(static_cast<int32_t>(*id));
  }
  return blocks;
}

StatusOr<TraceRequest> ReadRequest(const Json& line, const JsonFormat& format) {
  TraceRequest request;
  double time = 0;
  const Json* value = line.Find(format.time);
  if (value == nullptr || !value->AsNumber(&time) || time < 0 ||
      time * format.unit_ns > static_cast<double>(kMaxTraceNs)) {
    return InvalidArgument(StrCat("`", format.time, "`: expected a time of at least 0"));
  }
  request.arrival = Duration(std::llround(time * format.unit_ns));
  ASSIGN_OR_RETURN(request.prompt_tokens, Tokens(line, format.prompt));
  ASSIGN_OR_RETURN(request.output_tokens, Tokens(line, format.output));
  ASSIGN_OR_RETURN(request.blocks, Blocks(line, request.prompt_tokens));
  return request;
}

const JsonFormat* FindFormat(const Json& line) {
  for (const JsonFormat& format : kFormats) {
    if (line.Find(format.time) != nullptr) return &format;
  }
  return nullptr;
}

}  // namespace

StatusOr<Trace> ParseJsonLinesTrace(std::string_view text, const TraceOptions& options) {
  Trace trace = {.has_arrivals = true, .has_lengths = true, .requests = {}};
  const JsonFormat* format = nullptr;
  LineReader lines(text);
  std::string_view line;
  while (static_cast<int64_t>(trace.requests.size()) < options.max_requests && lines.Next(&line)) {
    if (line.empty()) continue;
    const auto json = Json::Parse(line, kLineLimits);
    if (!json.ok()) return lines.Error(Message(json.status()));
    if (format == nullptr) format = FindFormat(*json);
    if (format == nullptr) {
      return lines.Error("expected `timestamp` (mooncake) or `arrival_time_ns` (LLMServingSim)");
    }
    const auto request = ReadRequest(*json, *format);
    if (!request.ok()) return lines.Error(Message(request.status()));
    trace.requests.push_back(*request);
  }
  if (format != nullptr) trace.format = format->name;
  return trace;
}

}  // namespace aril

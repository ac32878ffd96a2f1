// Recorded workloads: who asked when, for how much. The formats are told apart by their first line.
//
//   aril         CSV, arrival_s,adapter,prompt_tokens,output_tokens; no adapter: the base model
//   azure        Azure LLM inference traces: CSV, TIMESTAMP,ContextTokens,GeneratedTokens
//   vidur        lengths without times: CSV, num_prefill_tokens,num_decode_tokens,…
//   alibaba      GenTD26 lora_request_trace.csv: times and tenants (gmt_create, groupId, num_lora)
//                without lengths; a request that uses a LoRA counts as one for its tenant's adapter
//   alibaba-lora GenTD26 data_trace_processed.csv: adapter ids (lora_args; the first of several)
//                without times or lengths
//   mooncake     JSON lines: timestamp (ms), input_length, output_length; if there, hash_ids: one
//                of each 512 tokens of the prompt, equal where these and all before them are
//   sharegpt     LLMServingSim's JSON lines: arrival_time_ns, input_toks, output_toks
//   servegen     ServeGen's chunk-N-trace.csv: per window a rate and a distribution of the times
//                between requests; lengths from chunk-N-dataset.json beside it, if that is there

#ifndef ARIL_APPS_BENCH_TRACE_H_
#define ARIL_APPS_BENCH_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace aril {

inline constexpr size_t kMaxTraceBytes = size_t{256} << 20;
inline constexpr int64_t kMaxTraceRequests = 1'000'000;

struct TraceRequest {
  Duration arrival{};         // since the first request
  int64_t adapter = -1;       // adapters are numbered as they first appear; -1: the base model
  int64_t prompt_tokens = 1;  // a recorded 0 becomes 1: servers want a token
  int64_t output_tokens = 1;
  // Of the prompt, kTraceBlockTokens each: equal numbers, equal tokens. Empty: not recorded.
  std::vector<int32_t> blocks = {};
};
inline constexpr int64_t kTraceBlockTokens = 512;

// What a format does not record is left at its default, and the flag is false.
struct Trace {
  std::string format;
  bool has_arrivals = false;
  bool has_adapters = false;
  bool has_lengths = false;
  std::vector<TraceRequest> requests;  // by arrival; not empty
};

struct TraceOptions {
  int64_t max_requests = kMaxTraceRequests;  // later ones are left out
  uint64_t seed = 1;                         // of servegen's draws
};

// The text of a trace, and of servegen's lengths (or ""). InvalidArgument names the line.
StatusOr<Trace> ParseTrace(std::string_view text, std::string_view servegen_lengths,
                           const TraceOptions& options);

// A file of at most kMaxTraceBytes, and servegen's lengths beside it.
StatusOr<Trace> ReadTrace(const std::string& path, const TraceOptions& options);

// In the format aril, which has no blocks.
std::string ToCsv(const std::vector<TraceRequest>& requests);

// Leaves out the requests of more than `max_tokens` tokens, prompt and output together; returns how
// many. InvalidArgument if none is left.
StatusOr<int64_t> DropLongRequests(int64_t max_tokens, Trace* trace);

// Each request's adapter becomes that of the request in the same place of `adapters`, from the
// start again where that is shorter. InvalidArgument if it records no adapters.
Status TakeAdapters(const Trace& adapters, Trace* trace);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_TRACE_H_

#include "apps/simulate_trace.h"

#include <map>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/bench_trace.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

StatusOr<Trace> ReadTraces(const SimulateTraceOptions& options) {
  if (options.path.empty()) return InvalidArgument("--trace: expected a file of recorded requests");
  ASSIGN_OR_RETURN(Trace trace, ReadTrace(options.path, {.seed = options.cluster.seed}));
  if (!trace.has_arrivals || !trace.has_lengths) {
    return InvalidArgument(
        StrCat(options.path, ": its format (", trace.format, ") records no ",
               trace.has_arrivals ? "lengths" : "times",
               "; give a trace with times and lengths, and take the adapters from this one with ",
               "--trace-adapters if it has any"));
  }
  if (!options.adapters_path.empty()) {
    ASSIGN_OR_RETURN(const Trace adapters,
                     ReadTrace(options.adapters_path, {.seed = options.cluster.seed}));
    if (const Status taken = TakeAdapters(adapters, &trace); !taken.ok()) {
      return Annotate(taken, options.adapters_path);
    }
    trace.has_adapters = true;
  }
  if (options.max_tokens) RETURN_IF_ERROR(DropLongRequests(*options.max_tokens, &trace).status());
  return trace;
}

// All turns of a conversation are of the first one's adapter. What begins with the same two blocks
// is one: the first alone may be what many have before their own.
void KeepConversations(std::vector<simulate::TraceRequest>* requests) {
  std::map<std::pair<int32_t, int32_t>, int64_t> adapters;
  for (simulate::TraceRequest& request : *requests) {
    if (request.blocks.size() < 2) continue;
    const std::pair conversation(request.blocks[0], request.blocks[1]);
    request.adapter = adapters.try_emplace(conversation, request.adapter).first->second;
  }
}

static_assert(kTraceBlockTokens == simulate::kBlockTokens);

}  // namespace

StatusOr<std::vector<simulate::TraceRequest>> ReadTraceRequests(
    const SimulateTraceOptions& options) {
  ASSIGN_OR_RETURN(const Trace trace, ReadTraces(options));
  std::vector<simulate::TraceRequest> requests;
  for (const TraceRequest& recorded : trace.requests) {
    const Duration arrival = ToDuration(ToSeconds(recorded.arrival) / options.speed);
    if (options.duration && arrival > *options.duration) break;
    requests.push_back({.arrival = arrival,
                        .adapter = recorded.adapter,
                        .prompt_tokens = recorded.prompt_tokens,
                        .output_tokens = recorded.output_tokens,
                        .blocks = recorded.blocks});
  }
  if (!trace.has_adapters) RETURN_IF_ERROR(GiveSkewedAdapters(options.cluster, &requests));
  KeepConversations(&requests);
  return requests;
}

Status SimulateTrace(const SimulateTraceOptions& options, std::ostream& out) {
  ASSIGN_OR_RETURN(std::vector<simulate::TraceRequest> requests, ReadTraceRequests(options));
  const Duration duration = options.duration.value_or(requests.back().arrival);
  return CompareClusters(options.cluster, std::move(requests), duration, {{"trace", options.path}},
                         out);
}

}  // namespace aril

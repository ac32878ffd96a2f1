#include "apps/bench_workload.h"

#include <algorithm>
#include <set>

#include "apps/bench_numbers.h"
#include "apps/bench_random.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr int64_t kMaxRequests = 1'000'000;
constexpr int64_t kPromptBeside = 8;
constexpr uint64_t kSeedBeside = 0x9e3779b97f4a7c15;  // not the arrivals of the load itself

// The trace's arrivals by the spec's speed, up to its duration.
std::vector<Duration> TraceArrivals(const WorkloadSpec& spec) {
  std::vector<Duration> arrivals;
  for (const TraceRequest& request : spec.trace->requests) {
    const Duration arrival = ToDuration(ToSeconds(request.arrival) / spec.trace_speed);
    if (spec.duration > Duration(0) && arrival >= spec.duration) break;
    arrivals.push_back(arrival);
  }
  return arrivals;
}

StatusOr<int64_t> CountRequests(const WorkloadSpec& spec) {
  double count = static_cast<double>(spec.num_requests);
  if (spec.num_requests == 0 && spec.arrivals.is_open() && spec.duration > Duration(0)) {
    count = std::max(1.0, spec.arrivals.rate * ToSeconds(spec.duration));
  }
  if (spec.trace != nullptr) {
    const auto recorded = static_cast<double>(spec.trace->requests.size());
    count = count == 0 ? recorded : std::min(count, recorded);
  }
  if (count < 1) {
    return InvalidArgument(
        "a closed loop has no duration; give --requests, or open arrivals (--arrivals "
        "poisson:RATE)");
  }
  if (count <= static_cast<double>(kMaxRequests)) return static_cast<int64_t>(count);
  return InvalidArgument(StrCat("a workload can have ", kMaxRequests, " requests, this has ",
                                static_cast<int64_t>(count), "; lower the rate or the duration"));
}

StatusOr<std::vector<Duration>> Arrivals(const WorkloadSpec& spec) {
  ASSIGN_OR_RETURN(const int64_t num_requests, CountRequests(spec));
  if (!spec.has_trace_arrivals()) return MakeArrivals(spec.arrivals, num_requests, spec.seed);
  std::vector<Duration> arrivals = TraceArrivals(spec);
  arrivals.resize(std::min(arrivals.size(), static_cast<size_t>(num_requests)));
  return arrivals;
}

StatusOr<int64_t> UsableAdapters(const WorkloadSpec& spec, int64_t num_server_adapters) {
  if (spec.num_adapters == 0) return num_server_adapters;
  if (spec.num_adapters <= num_server_adapters) return spec.num_adapters;
  return InvalidArgument(StrCat("the workload has ", spec.num_adapters, " adapters and the server ",
                                num_server_adapters,
                                "; make more with `aril synth adapters`, or give --adapters"));
}

// Of how many successive requests the shares of a popularity are. In a closed loop these share the
// steps; nobody knows how many do in an open one, and there all adapters get their turn.
int64_t BlockSize(const WorkloadSpec& spec, int64_t num_adapters) {
  return spec.is_open() ? std::max<int64_t>(num_adapters, 1) : spec.arrivals.concurrency;
}

StatusOr<std::vector<int64_t>> Adapters(const WorkloadSpec& spec, size_t num_requests,
                                        int64_t num_adapters) {
  if (!spec.has_trace_adapters()) {
    return AssignAdapters(spec.popularity, static_cast<int64_t>(num_requests),
                          BlockSize(spec, num_adapters), num_adapters, spec.seed);
  }
  std::vector<int64_t> adapters;
  for (size_t i = 0; i < num_requests; ++i) {
    const int64_t recorded = spec.trace->requests[i].adapter;
    if (recorded >= 0 && num_adapters == 0) {
      return InvalidArgument("the trace asks for adapters and the server has none");
    }
    adapters.push_back(recorded < 0 ? -1 : recorded % num_adapters);
  }
  return adapters;
}

// From the first arrival to the last.
StatusOr<std::vector<WorkloadRequest>> RequestsBeside(const WorkloadSpec& spec, Duration last,
                                                      int64_t num_adapters,
                                                      int64_t num_server_adapters) {
  const int64_t num_others = num_server_adapters - num_adapters;
  if (!spec.is_open()) {
    return InvalidArgument("requests beside the load need an open one (--arrivals poisson:RATE)");
  }
  if (spec.beside_cold > 0 && num_others == 0) {
    return InvalidArgument(StrCat("the load uses all ", num_server_adapters,
                                  " adapters of the server; lower --adapters or --beside-cold"));
  }
  if (spec.beside_cold < 1 && num_adapters == 0) {
    return InvalidArgument("the server has no adapters to ask for beside the load");
  }
  const double count = std::min(spec.beside_rate * ToSeconds(last), double{kMaxRequests});
  const ArrivalSpec arrivals = {.kind = ArrivalKind::kPoisson, .rate = spec.beside_rate};
  std::vector<WorkloadRequest> requests;
  int64_t num_cold = 0;
  for (const Duration arrival :
       MakeArrivals(arrivals, static_cast<int64_t>(count), spec.seed ^ kSeedBeside)) {
    const auto i = static_cast<int64_t>(requests.size());
    // The cold ones lie evenly among the others.
    const bool is_cold =
        static_cast<double>(num_cold) < spec.beside_cold * static_cast<double>(i + 1);
    requests.push_back(
        {.arrival = arrival,
         .adapter = is_cold ? num_adapters + num_cold % num_others : (i - num_cold) % num_adapters,
         .prompt_tokens = kPromptBeside,
         .counts = false});
    if (is_cold) ++num_cold;
  }
  return requests;
}

}  // namespace

StatusOr<Workload> MakeWorkload(const WorkloadSpec& spec, int64_t num_server_adapters) {
  ASSIGN_OR_RETURN(const int64_t num_adapters, UsableAdapters(spec, num_server_adapters));
  ASSIGN_OR_RETURN(const std::vector<Duration> arrivals, Arrivals(spec));
  ASSIGN_OR_RETURN(const std::vector<int64_t> adapters,
                   Adapters(spec, arrivals.size(), num_adapters));
  Workload workload;
  workload.num_clients = spec.is_open() ? 0 : spec.arrivals.concurrency;
  BenchRandom random(spec.seed, RandomStream::kLengths);
  for (size_t i = 0; i < arrivals.size(); ++i) {
    RequestLengths lengths;
    if (spec.has_trace_lengths()) {
      lengths = {spec.trace->requests[i].prompt_tokens, spec.trace->requests[i].output_tokens};
    } else {
      lengths = DrawLengths(spec.lengths, random);
    }
    workload.requests.push_back({.arrival = arrivals[i],
                                 .adapter = adapters[i],
                                 .prompt_tokens = lengths.prompt_tokens,
                                 .output_tokens = lengths.output_tokens});
  }
  if (spec.beside_rate == 0 || arrivals.empty()) return workload;
  ASSIGN_OR_RETURN(const std::vector<WorkloadRequest> beside,
                   RequestsBeside(spec, arrivals.back(), num_adapters, num_server_adapters));
  workload.requests.insert(workload.requests.end(), beside.begin(), beside.end());
  std::stable_sort(
      workload.requests.begin(), workload.requests.end(),
      [](const WorkloadRequest& a, const WorkloadRequest& b) { return a.arrival < b.arrival; });
  return workload;
}

int64_t CountAdapters(const Workload& workload) {
  std::set<int64_t> adapters;
  for (const WorkloadRequest& request : workload.requests) adapters.insert(request.adapter);
  adapters.erase(-1);
  return static_cast<int64_t>(adapters.size());
}

Json ToJson(const WorkloadSpec& spec) {
  const std::string from_trace = "trace";
  Json::Object object = {
      {"arrivals", spec.has_trace_arrivals() ? from_trace : Name(spec.arrivals)},
      {"popularity", spec.has_trace_adapters() ? from_trace : Name(spec.popularity)}};
  if (spec.has_trace_lengths()) {
    object.emplace_back("lengths", from_trace);
  } else if (spec.lengths.punica_max_total > 0) {
    object.emplace_back("lengths", StrCat("punica:", spec.lengths.punica_max_total));
  } else {
    object.emplace_back("prompt_tokens", Name(spec.lengths.prompt));
    object.emplace_back("output_tokens", Name(spec.lengths.output));
  }
  if (spec.trace != nullptr) {
    object.emplace_back("trace", spec.trace->format);
    object.emplace_back("trace_speed", spec.trace_speed);
  }
  object.emplace_back("requests", spec.num_requests);
  object.emplace_back("duration_s", ToSeconds(spec.duration));
  object.emplace_back("adapters", spec.num_adapters);
  object.emplace_back("prefix_tokens", spec.prefix_tokens);
  object.emplace_back("seed", static_cast<int64_t>(spec.seed));
  if (spec.beside_rate > 0) {
    object.emplace_back("beside_rate", spec.beside_rate);
    object.emplace_back("beside_cold", spec.beside_cold);
  }
  return object;
}

}  // namespace aril

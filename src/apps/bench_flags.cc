#include "apps/bench_flags.h"

#include <iostream>
#include <memory>
#include <utility>

#include "apps/flags.h"
#include "base/strings.h"

namespace aril {
namespace {

void AddServerFlags(CLI::App& app, BenchFlags& flags) {
  BenchServeOptions& options = flags.options;
  AddFlag(app, "--url", flags.url, "Where the server is");
  AddFlag(app, "--model", options.model, "Name of the base model [the first without a parent]");
  AddFlag(app, "--api-key", options.target.api_key, "Key that the requests carry");
  AddFlag(app, "--field", flags.field,
          "How a request names its adapter: model (Aril, vLLM, …) or lora (llama-server)");
  AddDurationFlag(app, "--timeout", options.target.timeout, "600s",
                  "Longest wait for the next bytes of an answer");
}

void AddArrivalFlags(CLI::App& app, BenchFlags& flags) {
  AddFlag(app, "--preset", flags.preset,
          "A published workload, which other flags may change: " + Join(PresetNames(), ", "));
  AddFlag(app, "--arrivals", flags.arrivals,
          "When requests are sent: closed:CLIENTS (each client waits for its answer), "
          "poisson:RATE, gamma:RATE:CV (open: in requests/s, whatever the answers) [closed:16]");
  AddFlag(app, "--concurrency", flags.concurrency, "Short for --arrivals closed:CLIENTS");
  AddFlag(app, "--requests", flags.num_requests, "Requests of one run [32; of a trace, all]")
      ->check(AtLeastOne());
  AddDurationFlag(app, "--duration", flags.duration,
                  "Length of an open loop's arrivals, instead of --requests");
  AddFlag(app, "--max-in-flight", flags.options.max_in_flight,
          "Requests of an open loop that may be unanswered; more are sent late, which is shown")
      ->check(CLI::Range(1, 16384));
}

void AddContentFlags(CLI::App& app, BenchFlags& flags) {
  AddFlag(app, "--popularity", flags.popularities,
          "Which adapters are asked for: base, identical, uniform, skewed, distinct, power:ALPHA; "
          "several, with commas, are run in turn [base,distinct; of a trace, what it records]")
      ->delimiter(',')
      ->default_str("");
  AddFlag(app, "--adapters", flags.num_adapters, "How many of the server's adapters are used [all]")
      ->check(AtLeastOne());
  AddFlag(app, "--prompt-tokens", flags.prompt_tokens,
          "Tokens of each prompt (random ids): a number or uniform:MIN:MAX [128]");
  AddFlag(app, "--prefix-tokens", flags.options.workload.prefix_tokens,
          "The first so many tokens of each prompt are common to all prompts of a run")
      ->check(CLI::Range(int64_t{0}, int64_t{INT32_MAX}));
  AddFlag(app, "--output-tokens", flags.output_tokens,
          "Tokens of each answer: a number or uniform:MIN:MAX [64]");
  AddFlag(app, "--lengths", flags.lengths,
          "punica:MAX: prompt and output tokens as in Punica's evaluation, together below MAX");
  AddFlag(
      app, "--beside", flags.options.workload.beside_rate,
      "Requests of one token per second beside an open load, which do not count: for adapters that "
      "the load does not use, which are then loaded, or as --beside-cold says")
      ->check(CLI::Range(0.0, 1e6));
  AddFlag(app, "--beside-cold", flags.options.workload.beside_cold,
          "The share of them for such adapters; the others are for the load's own")
      ->check(CLI::Range(0.0, 1.0));
  AddFlag(app, "--max-token-id", flags.options.max_token_id, "Largest id in a prompt")
      ->check(CLI::Range(kMinTokenId, INT32_MAX));
  AddFlag(app, "--seed", flags.options.workload.seed, "Same seed, same requests");
}

void AddTraceFlags(CLI::App& app, BenchFlags& flags) {
  AddFlag(app, "--trace", flags.trace,
          "File of recorded requests (docs/benchmarks.md has the formats); what it does not record "
          "comes from the other flags, and what these say explicitly counts");
  AddFlag(app, "--trace-adapters", flags.trace_adapters,
          "Another trace, whose requests say in turn which adapters those of --trace ask for");
  AddFlag(app, "--trace-speed", flags.trace_speed, "How many times faster its requests arrive")
      ->check(CLI::Range(1e-3, 1e6));
  AddFlag(app, "--trace-max-tokens", flags.trace_max_tokens,
          "Leave out its requests of more tokens, prompt and output together")
      ->check(AtLeastOne());
}

void AddRunFlags(CLI::App& app, BenchFlags& flags) {
  BenchServeOptions& options = flags.options;
  AddFlag(
      app, "--sweep", flags.sweep,
      "PARAMETER=VALUE,VALUE,…: a run and a row for each value of rate (requests/s), cv, "
      "concurrency, adapters, alpha, prompt-tokens, prefix-tokens, output-tokens, beside-cold or "
      "trace-speed");
  AddFlag(app, "--repeat", options.repeat, "Runs of each row, interleaved; medians are shown")
      ->check(AtLeastOne());
  AddDurationFlag(app, "--slo", options.slo, "6s",
                  "Time for the first token, for the attainment and satisfaction shown");
  AddSwitch(app, "--cold", options.cold,
            "Do not warm up with a short request for each adapter before each run");
  AddSwitch(app, "--allow-refusals", options.allow_refusals,
            "Count answers of 429 and 503, for loads beyond what the server can serve");
  AddSwitch(app, "--allow-unchecked", options.allow_unchecked,
            "Accept a server whose /metrics does not show which adapters shared its steps");
  AddFlag(app, "--json", options.json_path, "File to write all numbers to");
  AddFlag(app, "--svg", options.svg_path,
          "File to draw throughput and latency over time to (each row's first run)");
}

// `*value` = what `parse` makes of the text, unless that is empty.
template <typename T, typename Parse>
Status ParseFlag(const char* flag, const std::string& text, const Parse& parse, T* value) {
  if (text.empty()) return OkStatus();
  auto parsed = parse(text);
  if (!parsed.ok()) return Annotate(parsed.status(), flag);
  *value = *std::move(parsed);
  return OkStatus();
}

Status ResolveArrivals(const BenchFlags& flags, WorkloadSpec* spec) {
  if (flags.concurrency && !flags.arrivals.empty()) {
    return InvalidArgument("--concurrency is short for --arrivals closed:CLIENTS: give only one");
  }
  if (flags.concurrency) {
    spec->arrivals = {.concurrency = *flags.concurrency};
    if (const Status valid = Validate(spec->arrivals); !valid.ok()) {
      return Annotate(valid, "--concurrency");
    }
  }
  RETURN_IF_ERROR(ParseFlag("--arrivals", flags.arrivals, ParseArrivals, &spec->arrivals));
  return OkStatus();
}

Status ResolveCount(const BenchFlags& flags, WorkloadSpec* spec) {
  if (flags.num_requests && flags.duration) {
    return InvalidArgument("--requests and --duration say the same: give only one");
  }
  if (flags.num_requests) {
    spec->num_requests = *flags.num_requests;
    spec->duration = Duration(0);
  } else if (flags.duration) {
    spec->num_requests = 0;
    spec->duration = *flags.duration;
    if (spec->duration <= Duration(0)) return InvalidArgument("--duration: expected more than 0");
  } else if (!flags.trace.empty()) {
    spec->num_requests = 0;
  }
  const bool is_closed = flags.trace.empty() && !spec->arrivals.is_open();
  if (is_closed && spec->num_requests == 0) {
    return InvalidArgument(
        "--duration is of an open loop (--arrivals poisson:RATE or "
        "gamma:RATE:CV); give --requests for a closed one");
  }
  return OkStatus();
}

Status ResolveLengths(const BenchFlags& flags, LengthSpec* lengths) {
  if (!flags.lengths.empty() && !(flags.prompt_tokens.empty() && flags.output_tokens.empty())) {
    return InvalidArgument("--lengths says --prompt-tokens and --output-tokens: give only the one");
  }
  RETURN_IF_ERROR(
      ParseFlag("--lengths", flags.lengths, ParsePunicaLengths, &lengths->punica_max_total));
  RETURN_IF_ERROR(
      ParseFlag("--prompt-tokens", flags.prompt_tokens, ParseTokenRange, &lengths->prompt));
  return ParseFlag("--output-tokens", flags.output_tokens, ParseTokenRange, &lengths->output);
}

// Without flags or a preset: what the adapters cost at most.
const Popularity kDefaultPopularities[] = {{.kind = PopularityKind::kBase},
                                           {.kind = PopularityKind::kDistinct}};

Status ResolvePopularities(const BenchFlags& flags, const WorkloadSpec& spec,
                           std::vector<Popularity>* popularities) {
  for (const std::string& name : flags.popularities) {
    Popularity popularity;
    RETURN_IF_ERROR(ParseFlag("--popularity", name, ParsePopularity, &popularity));
    popularities->push_back(popularity);
  }
  if (!popularities->empty()) return OkStatus();
  if (!flags.preset.empty()) {
    popularities->push_back(spec.popularity);
  } else {
    popularities->assign(std::begin(kDefaultPopularities), std::end(kDefaultPopularities));
  }
  return OkStatus();
}

Status ResolveWorkload(const BenchFlags& flags, WorkloadSpec* spec) {
  RETURN_IF_ERROR(ParseFlag("--preset", flags.preset, FindPreset, spec));
  spec->seed = flags.options.workload.seed;
  spec->prefix_tokens = flags.options.workload.prefix_tokens;
  spec->beside_rate = flags.options.workload.beside_rate;
  spec->beside_cold = flags.options.workload.beside_cold;
  spec->trace_speed = flags.trace_speed;
  RETURN_IF_ERROR(ResolveArrivals(flags, spec));
  RETURN_IF_ERROR(ResolveCount(flags, spec));
  if (flags.num_adapters) spec->num_adapters = *flags.num_adapters;
  return ResolveLengths(flags, &spec->lengths);
}

}  // namespace

void AddBenchFlags(CLI::App& app, BenchFlags& flags) {
  AddServerFlags(app, flags);
  AddArrivalFlags(app, flags);
  AddContentFlags(app, flags);
  AddTraceFlags(app, flags);
  AddRunFlags(app, flags);
}

StatusOr<BenchServeOptions> ResolveBenchFlags(const BenchFlags& flags) {
  BenchServeOptions options = flags.options;
  RETURN_IF_ERROR(ParseFlag("--url", flags.url, gateway::ParseHttpUrl, &options.target.url));
  RETURN_IF_ERROR(ParseFlag("--field", flags.field, ParseAdapterField, &options.target.field));
  RETURN_IF_ERROR(ResolveWorkload(flags, &options.workload));
  RETURN_IF_ERROR(ResolvePopularities(flags, options.workload, &options.popularities));
  RETURN_IF_ERROR(ParseFlag("--sweep", flags.sweep, ParseSweep, &options.sweep));
  if (options.slo <= Duration(0)) return InvalidArgument("--slo: expected more than 0");
  return options;
}

Status LoadBenchTrace(const BenchFlags& flags, BenchServeOptions* options) {
  if (flags.trace.empty()) {
    return flags.trace_adapters.empty()
               ? OkStatus()
               : InvalidArgument("--trace-adapters needs a --trace, for times or lengths");
  }
  ASSIGN_OR_RETURN(Trace trace, ReadTrace(flags.trace, {.seed = options->workload.seed}));
  if (!flags.trace_adapters.empty()) {
    ASSIGN_OR_RETURN(const Trace adapters,
                     ReadTrace(flags.trace_adapters, {.seed = options->workload.seed}));
    if (const Status taken = TakeAdapters(adapters, &trace); !taken.ok()) {
      return Annotate(taken, flags.trace_adapters);
    }
  }
  if (!flags.arrivals.empty() || flags.concurrency) trace.has_arrivals = false;
  if (!flags.popularities.empty()) trace.has_adapters = false;
  if (!flags.lengths.empty() || !flags.prompt_tokens.empty() || !flags.output_tokens.empty()) {
    trace.has_lengths = false;
  }
  if (trace.has_lengths && flags.trace_max_tokens) {
    ASSIGN_OR_RETURN(const int64_t num_dropped, DropLongRequests(*flags.trace_max_tokens, &trace));
    std::cerr << flags.trace << ": " << num_dropped << " requests of more than "
              << *flags.trace_max_tokens << " tokens are left out" << std::endl;
  }
  // The trace says which adapters: one row, not one for each popularity.
  if (trace.has_adapters) options->popularities.resize(1);
  options->workload.trace = std::make_shared<const Trace>(std::move(trace));
  return OkStatus();
}

Status CheckBenchSweep(const BenchServeOptions& options) {
  for (const Popularity& popularity : options.popularities) {
    for (const double value : options.sweep.values) {
      WorkloadSpec spec = options.workload;
      spec.popularity = popularity;
      RETURN_IF_ERROR(ApplySweep(options.sweep.parameter, value, &spec));
    }
  }
  return OkStatus();
}

}  // namespace aril

#include "apps/simulate_cluster.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/bench_popularity.h"
#include "apps/output_file.h"
#include "apps/step_model_file.h"
#include "apps/svg_plot.h"
#include "apps/text_table.h"
#include "base/checked.h"
#include "base/json.h"
#include "base/mix64.h"
#include "base/strings.h"

namespace aril {
namespace {

using simulate::TraceRequest;
using simulate::TraceResult;

// The flat part of the step-time curve ends where a step takes twice as long as for one sequence.
constexpr double kSlack = 1.0;
constexpr Duration kInterval = std::chrono::seconds(30);

struct Variant {
  const char* name;
  bool consolidates;
  bool places_on_smallest;
  bool prefers_prefixes = true;
};
constexpr Variant kVariants[] = {{"consolidating", true, false},
                                 {"consolidation off", false, false},
                                 {"least loaded", false, true}};
// Where it is known which prompts begin alike.
constexpr Variant kWithoutAffinity[] = {{"consolidating, no affinity", true, false, false},
                                        {"consolidation off, no affinity", false, false, false}};

bool KnowsPrefixes(const std::vector<TraceRequest>& requests) {
  return std::ranges::any_of(requests, [](const TraceRequest& r) { return !r.blocks.empty(); });
}

int64_t PromptTokens(const std::vector<TraceRequest>& requests) {
  int64_t tokens = 0;
  for (const TraceRequest& r : requests) tokens += r.prompt_tokens;
  return tokens;
}

// Of their prompts, what an earlier one of the same adapter began with: what a cache without bounds
// would have.
int64_t TokensSeenBefore(const std::vector<TraceRequest>& requests) {
  std::unordered_set<uint64_t> seen;
  int64_t tokens = 0;
  for (const TraceRequest& r : requests) {
    auto beginning = static_cast<uint64_t>(r.adapter);
    int64_t before = 0;
    for (const int32_t block : r.blocks) {
      beginning = Mix64(beginning, static_cast<uint64_t>(block));
      if (!seen.insert(beginning).second) before += simulate::kBlockTokens;
    }
    tokens += std::min(before, r.prompt_tokens - 1);
  }
  return tokens;
}

double Percentile(const std::vector<double>& ascending, double p) {
  if (ascending.empty()) return 0;
  const auto last = static_cast<double>(ascending.size() - 1);
  return ascending[static_cast<size_t>(std::lround(p * last))];
}

double MeanContext(const std::vector<TraceRequest>& requests) {
  double tokens = 0, weight = 0;
  for (const TraceRequest& r : requests) {
    const auto output = static_cast<double>(r.output_tokens);
    tokens += output * (static_cast<double>(r.prompt_tokens) + output / 2);
    weight += output;
  }
  return weight == 0 ? 1 : tokens / weight;
}

simulate::WorldOptions MakeOptions(const SimulateClusterOptions& options, const Variant& variant,
                                   const simulate::StepModel& steps, int64_t flat_batch,
                                   bool knows_prefixes) {
  simulate::WorldOptions world;
  world.seed = options.seed;
  world.num_runners = static_cast<int>(options.num_gpus);
  const SimulatedGpu& gpu = options.gpu;
  world.runner = {.max_running = gpu.max_num_seqs,
                  .max_rows = gpu.max_num_batched_tokens,
                  .pages_total = gpu.pool_bytes / gpu.page_bytes(),
                  .page_tokens = SimulatedGpu::kPageTokens,
                  .page_bytes = gpu.page_bytes(),
                  .caches_prefixes = knows_prefixes,
                  .steps = steps};
  world.scheduler.pages.page_tokens = SimulatedGpu::kPageTokens;
  world.scheduler.max_backlog_tokens = options.max_backlog_tokens;
  world.scheduler.drain_margin = options.drain_margin;
  world.scheduler.prefers_prefixes = variant.prefers_prefixes;
  if (variant.consolidates) world.scheduler.flat_batch = flat_batch;
  const bool spreads = variant.places_on_smallest;
  world.policies = [spreads, chosen = options.policies] {
    scheduler::Policies policies = scheduler::MakePolicies(chosen);
    policies.places_on_smallest = spreads;
    return policies;
  };
  world.max_waiting = options.policies.max_waiting;
  // A queue on a full cluster is no failure here.
  world.gateway.silence_limit = std::chrono::hours(1);
  return world;
}

Json ToJson(const TraceResult& result) {
  Json::Array samples;
  for (const simulate::TraceSample& sample : result.samples) {
    Json::Array batches;
    for (const int64_t batch : sample.batches) batches.emplace_back(batch);
    samples.emplace_back(Json::Object{{"seconds", sample.seconds},
                                      {"requests_per_s", sample.requests_per_s},
                                      {"tokens_per_s", sample.tokens_per_s},
                                      {"batches", Json(std::move(batches))}});
  }
  return Json::Object{{"gpu_hours", result.gpu_hours},
                      {"seconds", result.seconds},
                      {"finished", result.num_finished},
                      {"failed", result.num_failed},
                      {"tokens", result.num_tokens},
                      {"prompt_tokens_cached", result.num_cached},
                      {"prompt_tokens_expected", result.scheduler.prefix_tokens},
                      {"peak_gpus", result.peak_runners},
                      {"activations", result.num_activations},
                      {"migrations", result.scheduler.migrations},
                      {"drains", result.scheduler.drains},
                      {"queue_p50_s", Percentile(result.queue_seconds, 0.5)},
                      {"queue_p99_s", Percentile(result.queue_seconds, 0.99)},
                      {"first_token_p50_s", Percentile(result.first_token_seconds, 0.5)},
                      {"first_token_p99_s", Percentile(result.first_token_seconds, 0.99)},
                      {"token_p50_s", Percentile(result.token_seconds, 0.5)},
                      {"token_p99_s", Percentile(result.token_seconds, 0.99)},
                      {"samples", Json(std::move(samples))}};
}

std::string Svg(const TraceResult& result) {
  PlotLine rate = {"requests/s", {}}, tokens = {"tokens/s", {}};
  std::vector<PlotLine> batches;
  for (const simulate::TraceSample& sample : result.samples) {
    const double minutes = sample.seconds / 60;
    rate.points.push_back({minutes, sample.requests_per_s});
    tokens.points.push_back({minutes, sample.tokens_per_s});
    batches.resize(sample.batches.size());
    for (size_t i = 0; i < sample.batches.size(); ++i) {
      batches[i].name = StrCat("GPU ", i + 1);
      batches[i].points.push_back({minutes, static_cast<double>(sample.batches[i])});
    }
  }
  return RenderSvg({{"Batch size of each GPU", "minutes", "sequences", std::move(batches)},
                    {"Request rate", "minutes", "requests/s", {std::move(rate)}},
                    {"Throughput", "minutes", "tokens/s", {std::move(tokens)}}});
}

}  // namespace

double GpuHoursLowerBound(const std::vector<TraceRequest>& requests,
                          const simulate::StepModel& steps, int64_t full_batch) {
  const auto batch = static_cast<double>(full_batch);
  double seconds = 0, full_steps = 0;
  double prompts = -static_cast<double>(TokensSeenBefore(requests));
  for (const TraceRequest& r : requests) {
    const auto prompt = static_cast<double>(r.prompt_tokens);
    const auto output = static_cast<double>(r.output_tokens);
    const double context = prompt + output / 2;
    const double step = steps.base + batch * (steps.sequence + steps.context_token * context);
    seconds += output * step / batch;
    prompts += prompt;
    full_steps += output / batch;
  }
  // What the steps of full batches have room for costs nothing.
  const double room = full_steps * std::max(0.0, steps.free_rows - batch);
  return (seconds + std::max(0.0, prompts - room) * steps.prefill_token) / 3600;
}

int64_t SimulatedGpu::PagesOfAdapter(int64_t rank) const {
  return CeilDiv(rank * adapter_bytes_per_rank, page_bytes());
}

Status GiveSkewedAdapters(const SimulateClusterOptions& options,
                          std::vector<TraceRequest>* requests) {
  const Popularity skewed = {.kind = PopularityKind::kSkewed};
  const int64_t in_flight = options.num_gpus * options.gpu.max_num_seqs;
  const auto num_adapters = static_cast<int64_t>(AdapterShares(skewed, in_flight).size());
  ASSIGN_OR_RETURN(const std::vector<int64_t> adapters,
                   AssignAdapters(skewed, static_cast<int64_t>(requests->size()), in_flight,
                                  num_adapters, options.seed));
  for (size_t i = 0; i < requests->size(); ++i) (*requests)[i].adapter = adapters[i];
  return OkStatus();
}

Status CompareClusters(const SimulateClusterOptions& options, std::vector<TraceRequest> requests,
                       Duration duration, Json::Object about, std::ostream& out) {
  ASSIGN_OR_RETURN(const simulate::StepModel steps, ReadStepModelFile(options.step_model_path, {}));
  for (TraceRequest& request : requests) {
    if (request.adapter < 0) continue;
    const size_t rank = static_cast<size_t>(request.adapter) % options.ranks.size();
    request.adapter_pages = options.gpu.PagesOfAdapter(options.ranks[rank]);
  }
  const int64_t batch = options.gpu.max_num_seqs;
  const double bound = GpuHoursLowerBound(requests, steps, batch);
  const double hours = ToSeconds(duration) / 3600;
  const double static_hours = static_cast<double>(options.num_gpus) * hours;
  const double context = MeanContext(requests);
  const auto num_prompt_tokens = static_cast<double>(PromptTokens(requests));
  const int64_t num_seen_before = TokensSeenBefore(requests);
  const int64_t flat_batch =
      steps.Curve(batch, static_cast<int64_t>(context)).FlatBatch(kSlack, batch);
  std::vector<std::vector<std::string>> lines = {
      {"cluster", "GPU hours", "of bound", "peak GPUs", "activations", "migrations", "cached",
       "queue p99 s", "TTFT p50 s", "p99", "token p50 ms", "p99", "failed"}};
  lines.push_back({"lower bound", Decimal(bound, 2), "1.00", "", "", "",
                   Decimal(static_cast<double>(num_seen_before) / num_prompt_tokens, 2)});
  Json::Object variants;
  double gpu_hours = 0;
  std::vector<Variant> compared(std::begin(kVariants), std::end(kVariants));
  const bool knows_prefixes = KnowsPrefixes(requests);
  if (knows_prefixes) {
    compared.insert(compared.end(), std::begin(kWithoutAffinity), std::end(kWithoutAffinity));
  }
  for (const Variant& variant : compared) {
    const TraceResult result = simulate::RunTrace(
        MakeOptions(options, variant, steps, flat_batch, knows_prefixes), requests, kInterval);
    if (!result.violation.empty()) return Internal(StrCat(variant.name, ": ", result.violation));
    lines.push_back({variant.name, Decimal(result.gpu_hours, 2),
                     Decimal(result.gpu_hours / bound, 2), std::to_string(result.peak_runners),
                     std::to_string(result.num_activations),
                     std::to_string(result.scheduler.migrations),
                     Decimal(static_cast<double>(result.num_cached) / num_prompt_tokens, 2),
                     Decimal(Percentile(result.queue_seconds, 0.99), 3),
                     Decimal(Percentile(result.first_token_seconds, 0.5), 3),
                     Decimal(Percentile(result.first_token_seconds, 0.99), 3),
                     Decimal(Percentile(result.token_seconds, 0.5) * 1e3, 1),
                     Decimal(Percentile(result.token_seconds, 0.99) * 1e3, 1),
                     std::to_string(result.num_failed)});
    variants.emplace_back(variant.name, ToJson(result));
    if (variants.size() == 1) {
      gpu_hours = result.gpu_hours;
      if (!options.svg_path.empty()) {
        RETURN_IF_ERROR(WriteTextFile("--svg", options.svg_path, Svg(result)));
      }
      variants.emplace_back("static", Json::Object{{"gpu_hours", static_hours}});
    }
  }
  lines.push_back({"static", Decimal(static_hours, 2), Decimal(static_hours / bound, 2),
                   std::to_string(options.num_gpus)});
  for (std::vector<std::string>& line : lines) line.resize(lines.front().size());
  out << requests.size() << " requests in " << Decimal(hours, 2) << " h on " << options.num_gpus
      << " GPUs, mean context " << Decimal(context, 0) << " tokens\n"
      << AlignColumns(lines, 1) << std::flush;
  if (options.json_path.empty()) return OkStatus();
  Json::Object json = {{"gpu_hours", gpu_hours},
                       {"gpu_hours_lower_bound", bound},
                       {"gpus", options.num_gpus},
                       {"flat_batch", flat_batch},
                       {"hours", hours},
                       {"requests", static_cast<int64_t>(requests.size())},
                       {"seed", static_cast<int64_t>(options.seed)},
                       {"step_model", steps.ToJson()}};
  for (auto& member : about) json.push_back(std::move(member));
  json.emplace_back("variants", Json(std::move(variants)));
  return WriteTextFile("--json", options.json_path, Json(std::move(json)).Dump() + "\n");
}

}  // namespace aril

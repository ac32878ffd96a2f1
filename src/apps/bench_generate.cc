#include "apps/bench_generate.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/bench_synthetic.h"
#include "apps/output_file.h"
#include "apps/progress.h"
#include "apps/step_timer.h"
#include "apps/text_table.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

struct Request {
  RequestLengths lengths;
  AdapterId adapter = kBaseModel;
};

enum class Batches { kMixed, kOneAdapter };

// What generating the answers to some requests took.
struct Outcome {
  int64_t tokens = 0;
  int64_t steps = 0;
  double seconds = 0;
  double roofline = 0;  // of all steps together

  double tokens_per_s() const { return static_cast<double>(tokens) / seconds; }
};

struct Case {
  Popularity popularity;
  std::vector<Request> requests;
  std::vector<Outcome> mixed;
  std::vector<Outcome> restricted;  // of the first requests
  std::vector<Outcome> beside;      // the same ones, mixed
};

double MedianOf(const std::vector<Outcome>& outcomes, double (*value)(const Outcome&)) {
  std::vector<double> values;
  for (const Outcome& outcome : outcomes) values.push_back(value(outcome));
  return Median(std::move(values));
}

double TokensPerSecond(const std::vector<Outcome>& outcomes) {
  return MedianOf(outcomes, [](const Outcome& o) { return o.tokens_per_s(); });
}

// What a step costs, of what the engine submits.
StepLoad LoadOf(std::span<const StepItem> items, int64_t rank) {
  StepLoad load;
  std::map<AdapterId, int64_t> rows;
  for (const StepItem& item : items) {
    load.sequences.push_back({.rows = item.num_rows, .context = item.first_token + item.num_rows});
    for (const AdapterUse& use : item.sequence->request.adapters) rows[use.id] += item.num_rows;
  }
  for (const auto& [adapter, num_rows] : rows) {
    load.adapters.push_back({.rank = rank, .rows = num_rows});
  }
  return load;
}

class Bench {
 public:
  Bench(const BenchGenerateOptions& options, std::ostream& out, std::ostream& progress_out,
        const Clock& clock)
      : options_(options), out_(out), progress_out_(progress_out), clock_(clock) {}

  Status Run() {
    RETURN_IF_ERROR(DrawCases());
    RETURN_IF_ERROR(Load());
    RETURN_IF_ERROR(WarmUp());
    const bool restricts = options_.num_restricted > 0;
    Progress progress(
        {.label = "generating",
         .total = cases_.size() * static_cast<uint64_t>(options_.passes) * (restricts ? 3 : 1),
         .unit = "runs",
         .is_terminal = false},
        progress_out_, clock_);
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      for (Case& each : cases_) {
        const auto run = [&](std::span<const Request> requests, Batches batches,
                             std::vector<Outcome>& outcomes) -> Status {
          ASSIGN_OR_RETURN(Outcome outcome, Generate(requests, batches));
          outcomes.push_back(outcome);
          progress.Add(1);
          return OkStatus();
        };
        RETURN_IF_ERROR(run(each.requests, Batches::kMixed, each.mixed));
        if (!restricts) continue;
        const auto first = std::span<const Request>(each.requests)
                               .first(static_cast<size_t>(
                                   std::min(options_.num_restricted, options_.num_requests)));
        RETURN_IF_ERROR(run(first, Batches::kMixed, each.beside));
        RETURN_IF_ERROR(run(first, Batches::kOneAdapter, each.restricted));
      }
    }
    progress.Finish();
    return Report();
  }

 private:
  // The same lengths for all popularities.
  Status DrawCases() {
    ASSIGN_OR_RETURN(const LengthSpec lengths, ParseGenerationLengths(options_.lengths));
    for (const std::string& name : options_.popularities) {
      Case& each = cases_.emplace_back();
      ASSIGN_OR_RETURN(each.popularity, ParsePopularity(name));
      ASSIGN_OR_RETURN(const std::vector<int64_t> adapters,
                       AssignAdapters(each.popularity, options_.num_requests, options_.max_batch,
                                      options_.num_adapters, options_.seed));
      BenchRandom random(options_.seed, RandomStream::kLengths);
      for (const int64_t adapter : adapters) {
        const RequestLengths drawn = DrawLengths(lengths, random);
        each.requests.push_back({drawn, AdapterId(static_cast<int32_t>(adapter))});
        max_tokens_ = std::max(max_tokens_, drawn.prompt_tokens + drawn.output_tokens);
      }
    }
    return OkStatus();
  }

  Status Load() {
    const StepTimerOptions options = {
        .shape = options_.shape,
        .dtype = options_.dtype,
        .device = options_.device,
        .isa = options_.isa,
        .threads = options_.threads,
        .adapter_ranks =
            std::vector<int64_t>(static_cast<size_t>(options_.num_adapters), options_.rank),
        .max_sequences = options_.max_batch,
        .max_tokens = max_tokens_,
        .probe_bytes = options_.probe_bytes};
    ASSIGN_OR_RETURN(timer_, StepTimer::Create(options, out_, clock_));
    return OkStatus();
  }

  // The first use of an adapter copies it, and a GPU captures the first steps of each shape.
  Status WarmUp() {
    const std::vector<Request>& all = cases_.front().requests;
    std::vector<Request> requests(
        all.begin(), all.begin() + std::min<int64_t>(std::ssize(all), options_.max_batch));
    for (int32_t i = 0; i < options_.num_adapters; ++i) {
      requests.push_back({.lengths = {1, 1}, .adapter = AdapterId(i)});
    }
    return Generate(requests, Batches::kMixed).status();
  }

  // As many at a time as a batch holds, first come, first served: where a batch may hold one
  // adapter only, a request of another waits until all that run have ended, and those behind it
  // wait, too.
  StatusOr<Outcome> Generate(std::span<const Request> requests, Batches batches) {
    Engine& engine = timer_->runner().engine();
    std::vector<StepLoad> loads;
    engine.executor().SetStepObserver(
        [&](std::span<const StepItem> items) { loads.push_back(LoadOf(items, options_.rank)); });
    ASSIGN_OR_RETURN(const double before, timer_->BytesPerSecond());
    Outcome outcome;
    size_t next = 0;
    int64_t running = 0;
    const auto may_start = [&] {
      if (next == requests.size() || running == options_.max_batch) return false;
      return batches == Batches::kMixed || running == 0 ||
             requests[next].adapter == requests[next - 1].adapter;
    };
    const TimePoint start = clock_.Now();
    while (next < requests.size() || running > 0) {
      for (; may_start(); ++next, ++running) RETURN_IF_ERROR(Start(engine, requests[next]));
      for (const wire::TokenEvent& event : engine.Step()) {
        RETURN_IF_ERROR(event.error);
        if (event.token.has_value()) ++outcome.tokens;
        if (event.finish.has_value()) --running;
      }
    }
    outcome.seconds = ToSeconds(clock_.Now() - start);
    engine.executor().SetStepObserver(nullptr);
    ASSIGN_OR_RETURN(const double after, timer_->BytesPerSecond());
    outcome.steps = std::ssize(loads);
    for (const StepLoad& load : loads) {
      outcome.roofline += timer_->Roofline(load, (before + after) / 2);
    }
    return outcome;
  }

  Status Start(Engine& engine, const Request& request) {
    const int64_t id = next_id_++;
    wire::SequenceRequest sequence =
        SyntheticRequest(timer_->runner().spec().vocab_size, id, request.adapter,
                         request.lengths.prompt_tokens, request.lengths.output_tokens);
    ASSIGN_OR_RETURN(AcceptedSequence accepted, engine.Accept(std::move(sequence)));
    engine.Add(std::move(accepted));
    return OkStatus();
  }

  Status Report() {
    std::vector<std::vector<std::string>> lines = {{"popularity", "tok/s", "of roofline",
                                                    "sequences in a step", "first ones, tok/s",
                                                    "one adapter in a batch", "times"}};
    Json::Array results;
    for (const Case& each : cases_) {
      const double mixed = TokensPerSecond(each.mixed);
      const double of_roofline =
          MedianOf(each.mixed, [](const Outcome& o) { return o.roofline / o.seconds; });
      const Outcome& last = each.mixed.back();
      const double decodes = static_cast<double>(last.tokens) / static_cast<double>(last.steps);
      std::vector<std::string> line = {Name(each.popularity), Decimal(mixed, 1),
                                       Decimal(of_roofline, 2), Decimal(decodes, 1)};
      Json::Object result = {{"popularity", Name(each.popularity)},
                             {"tokens", last.tokens},
                             {"steps", last.steps},
                             {"tokens_per_s", mixed},
                             {"of_roofline", of_roofline}};
      if (!each.restricted.empty()) {
        const double beside = TokensPerSecond(each.beside);
        const double restricted = TokensPerSecond(each.restricted);
        line.insert(line.end(),
                    {Decimal(beside, 1), Decimal(restricted, 1), Decimal(beside / restricted, 1)});
        result.emplace_back("first_tokens_per_s", beside);
        result.emplace_back("one_adapter_tokens_per_s", restricted);
      }
      line.resize(lines[0].size());
      lines.push_back(std::move(line));
      results.push_back(std::move(result));
    }
    out_ << options_.num_requests << " requests, lengths " << options_.lengths << ", at most "
         << options_.max_batch << " at a time, " << options_.num_adapters << " adapters of rank "
         << options_.rank << "; beside them the first " << options_.num_restricted
         << " of each, mixed and with one adapter in a batch\n"
         << AlignColumns(lines, 1) << std::flush;
    if (options_.json_path.empty()) return OkStatus();
    const Json json = Json::Object{{"shape", options_.shape},
                                   {"device", options_.device},
                                   {"lengths", options_.lengths},
                                   {"requests", options_.num_requests},
                                   {"restricted_requests", options_.num_restricted},
                                   {"max_batch", options_.max_batch},
                                   {"rank", options_.rank},
                                   {"passes", options_.passes},
                                   {"limits", timer_->limits().ToJson()},
                                   {"results", Json(std::move(results))}};
    return WriteTextFile("--json", options_.json_path, json.Dump() + "\n");
  }

  const BenchGenerateOptions& options_;
  std::ostream& out_;
  std::ostream& progress_out_;
  const Clock& clock_;
  std::vector<Case> cases_;
  int64_t max_tokens_ = 2;
  std::unique_ptr<StepTimer> timer_;
  int64_t next_id_ = 0;
};

}  // namespace

Status BenchGenerate(const BenchGenerateOptions& options, std::ostream& out,
                     std::ostream& progress_out, const Clock& clock) {
  return Bench(options, out, progress_out, clock).Run();
}

}  // namespace aril

#include "apps/bench_ablation.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "apps/bench_kernels.h"
#include "apps/bench_numbers.h"
#include "apps/bench_synthetic.h"
#include "apps/output_file.h"
#include "apps/progress.h"
#include "apps/text_table.h"
#include "base/strings.h"
#include "model/pool_layout.h"

namespace aril {
namespace {

constexpr Duration kProbeDuration = std::chrono::milliseconds(200);
constexpr int64_t kLongAdapters = 4;  // that the longer requests use

// Of the pool, that adapters may take; nullopt: one pool for all.
using Split = std::optional<double>;

// What one run of a load found.
struct Outcome {
  double seconds = 0;
  int64_t evictions = 0;
  int64_t adapter_loads = 0;
};

class Bench {
 public:
  Bench(const BenchAblationOptions& options, std::ostream& out, std::ostream& progress_out,
        const Clock& clock)
      : options_(options), out_(out), progress_out_(progress_out), clock_(clock) {}

  Status Run() {
    ASSIGN_OR_RETURN(const ModelSpec spec, SpecOfShape(options_.shape));
    if (IsWanted("drafts") && spec.linear_attention) {
      return InvalidArgument(StrCat("of ", options_.shape,
                                    ", whose sequences have a state, nothing ",
                                    "is drafted; ask for --parts pool,merging"));
    }
    ASSIGN_OR_RETURN(isa_, kernels::ChooseIsa(options_.isa));
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    threads_ = std::make_unique<ThreadPool>(options_.threads > 0 ? options_.threads : cores);
    Json::Object results{{"shape", options_.shape}, {"passes", options_.passes}};
    if (IsWanted("pool")) {
      ASSIGN_OR_RETURN(Json json, RunPool());
      results.emplace_back("pool", std::move(json));
    }
    if (IsWanted("merging")) {
      ASSIGN_OR_RETURN(Json json, RunMerging());
      results.emplace_back("merging", std::move(json));
    }
    if (IsWanted("drafts")) {
      ASSIGN_OR_RETURN(Json json, RunDrafts());
      results.emplace_back("drafts", std::move(json));
    }
    if (options_.json_path.empty()) return OkStatus();
    return WriteTextFile("--json", options_.json_path, Json(std::move(results)).Dump() + "\n");
  }

 private:
  bool IsWanted(const char* part) const { return std::ranges::count(options_.parts, part) > 0; }

  LocalRunnerOptions RunnerOptions(const SyntheticFiles& files) const {
    LocalRunnerOptions runner;
    runner.model_dir = files.model_dir();
    runner.adapter_dirs = files.adapter_dirs();
    runner.isa = options_.isa;
    runner.threads = threads_->num_threads();
    runner.max_num_seqs = options_.max_num_seqs;
    runner.enable_prefix_caching = false;  // what is compared is not to differ by it
    return runner;
  }

  Progress ShowRuns(const std::string& label, size_t num_cases) const {
    return Progress({.label = label,
                     .total = num_cases * static_cast<uint64_t>(options_.passes),
                     .unit = "runs",
                     .is_terminal = false},
                    progress_out_, clock_);
  }

  // --- One pool, or two ----------------------------------------------------------------------

  StatusOr<Json> RunPool() {
    ASSIGN_OR_RETURN(const auto files,
                     SyntheticFiles::Create({.shape = options_.shape,
                                             .num_adapters = options_.num_adapters,
                                             .ranks = options_.ranks,
                                             .targets = {"q_proj", "v_proj"}},
                                            *threads_));
    std::vector<Split> splits = {std::nullopt};
    splits.insert(splits.end(), options_.splits.begin(), options_.splits.end());
    std::vector<std::vector<Outcome>> outcomes(splits.size());
    Progress progress = ShowRuns("pools", splits.size());
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      for (size_t i = 0; i < splits.size(); ++i) {
        ASSIGN_OR_RETURN(const Outcome outcome, RunPoolOnce(*files, splits[i]));
        outcomes[i].push_back(outcome);
        progress.Add(1);
      }
    }
    progress.Finish();
    return ReportPool(splits, outcomes);
  }

  StatusOr<Outcome> RunPoolOnce(const SyntheticFiles& files, const Split& split) {
    LocalRunnerOptions options = RunnerOptions(files);
    const int64_t longest = std::max(options_.long_prompt + options_.long_output,
                                     options_.short_prompt + options_.short_output);
    options.max_model_len = longest;
    ASSIGN_OR_RETURN(const ModelSpec spec, LoadModelSpec(options.model_dir));
    ASSIGN_OR_RETURN(const kernels::KvLayout layout, ChooseKvLayout(spec, DType::kBF16));
    pool_bytes_ = options_.pool_bytes.value_or(options_.max_num_seqs * layout.pages().For(longest) *
                                               layout.page_bytes());
    options.pool_bytes = pool_bytes_;
    if (split.has_value()) {
      options.adapter_pool_share = *split;
      options.kv_pool_share = 1 - *split;
    }
    ASSIGN_OR_RETURN(auto local, LocalRunner::Create(options, clock_));
    TimedRunner runner(std::move(local), clock_);
    ASSIGN_OR_RETURN(const double seconds, runner.Run(ChangingLoad(spec.vocab_size)));
    return Outcome{.seconds = seconds,
                   .evictions = runner.stats().evictions,
                   .adapter_loads = runner.stats().adapter_loads};
  }

  // Now many adapters for little text each, then few for much.
  std::vector<wire::SequenceRequest> ChangingLoad(int64_t vocab_size) const {
    std::vector<wire::SequenceRequest> requests;
    for (int64_t i = 0; i < options_.phases * options_.phase_requests; ++i) {
      const bool is_long = i / options_.phase_requests % 2 == 1;
      const int64_t drawn = is_long
                                ? i % kLongAdapters
                                : static_cast<int64_t>(i * 2654435761 >> 4) % options_.num_adapters;
      requests.push_back(SyntheticRequest(vocab_size, i, AdapterId(static_cast<int32_t>(drawn)),
                                          is_long ? options_.long_prompt : options_.short_prompt,
                                          is_long ? options_.long_output : options_.short_output));
    }
    return requests;
  }

  Json ReportPool(const std::vector<Split>& splits,
                  const std::vector<std::vector<Outcome>>& outcomes) {
    const double unified = MedianSeconds(outcomes[0]);
    std::vector<std::vector<std::string>> lines = {{"adapters' share of the pool", "seconds",
                                                    "of one pool's speed", "evictions",
                                                    "adapter loads"}};
    Json::Array results;
    for (size_t i = 0; i < splits.size(); ++i) {
      const double seconds = MedianSeconds(outcomes[i]);
      const Outcome& last = outcomes[i].back();
      lines.push_back({splits[i].has_value() ? Decimal(*splits[i], 2) : "one pool for all",
                       Decimal(seconds, 2), Decimal(unified / seconds, 2),
                       std::to_string(last.evictions), std::to_string(last.adapter_loads)});
      results.push_back(Json::Object{{"adapter_share", splits[i].value_or(0)},
                                     {"unified", !splits[i].has_value()},
                                     {"seconds", seconds},
                                     {"evictions", last.evictions},
                                     {"adapter_loads", last.adapter_loads}});
    }
    out_ << "One pool of " << pool_bytes_ << " bytes, or split; " << options_.phases
         << " phases of " << options_.phase_requests << " requests, in turns short ones of "
         << options_.num_adapters << " adapters and long ones of " << kLongAdapters << ":\n"
         << AlignColumns(lines, 1) << std::endl;
    return {std::move(results)};
  }

  static double MedianSeconds(const std::vector<Outcome>& outcomes) {
    std::vector<double> seconds;
    for (const Outcome& outcome : outcomes) seconds.push_back(outcome.seconds);
    return Median(std::move(seconds));
  }

  // --- Merging -------------------------------------------------------------------------------

  // A server that merges serves the base model's shapes, with one adapter at a time.
  struct MergingCase {
    int64_t num_adapters = 1;
    std::vector<double> mixed;     // seconds of each pass: all requests, each with its adapter
    std::vector<double> merged;    // adapter after adapter, at the base model's speed
    std::vector<double> switches;  // from each adapter to the next
  };

  StatusOr<Json> RunMerging() {
    const int64_t most =
        *std::max_element(options_.merged_adapters.begin(), options_.merged_adapters.end());
    ASSIGN_OR_RETURN(const auto files, SyntheticFiles::Create({.shape = options_.shape,
                                                               .num_adapters = most,
                                                               .ranks = {options_.merged_rank}},
                                                              *threads_));
    LocalRunnerOptions options = RunnerOptions(*files);
    options.max_model_len = options_.merged_prompt + options_.merged_output;
    ASSIGN_OR_RETURN(auto local, LocalRunner::Create(options, clock_));
    TimedRunner runner(std::move(local), clock_);
    kernels::CpuContext context(*threads_, isa_);
    MachineProbe probe(context, clock_, options_.probe_bytes);
    const double switched = 2 * BytesOfMatrices(runner.spec());

    std::vector<MergingCase> cases;
    for (const int64_t n : options_.merged_adapters) cases.push_back({.num_adapters = n});
    // The first use of an adapter copies it.
    RETURN_IF_ERROR(runner.Run(MergingLoad(runner.spec(), most, std::nullopt)).status());
    Progress progress = ShowRuns("merging", cases.size());
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      for (MergingCase& c : cases) {
        ASSIGN_OR_RETURN(const double mixed,
                         runner.Run(MergingLoad(runner.spec(), c.num_adapters, std::nullopt)));
        double merged = 0;
        for (int64_t adapter = 0; adapter < c.num_adapters; ++adapter) {
          ASSIGN_OR_RETURN(const double seconds,
                           runner.Run(MergingLoad(runner.spec(), c.num_adapters, adapter)));
          merged += seconds;
        }
        c.mixed.push_back(mixed);
        c.merged.push_back(merged);
        const auto num_switches = static_cast<double>(c.num_adapters > 1 ? c.num_adapters : 0);
        c.switches.push_back(num_switches * switched / probe.ReadBytesPerSecond(kProbeDuration));
        progress.Add(1);
      }
    }
    progress.Finish();
    return ReportMerging(cases);
  }

  // Of the modules of all layers that adapters change.
  static double BytesOfMatrices(const ModelSpec& spec) {
    int64_t elements = 0;
    const LayerModules modules(spec);
    for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
      for (const LinearModule& module : modules[layer]) {
        elements += spec.InFeatures(module) * spec.OutFeatures(module);
      }
    }
    return static_cast<double>(elements) * static_cast<double>(SizeOf(DType::kBF16));
  }

  // All requests, each with its adapter; or those of one adapter, to be served by the base model.
  std::vector<wire::SequenceRequest> MergingLoad(const ModelSpec& spec, int64_t num_adapters,
                                                 std::optional<int64_t> only) const {
    std::vector<wire::SequenceRequest> requests;
    for (int64_t i = 0; i < options_.merged_requests; ++i) {
      const int64_t adapter = i % num_adapters;
      if (only.has_value() && adapter != *only) continue;
      requests.push_back(
          SyntheticRequest(spec.vocab_size, i,
                           only.has_value() ? kBaseModel : AdapterId(static_cast<int32_t>(adapter)),
                           options_.merged_prompt, options_.merged_output));
    }
    return requests;
  }

  Json ReportMerging(const std::vector<MergingCase>& cases) {
    const auto tokens = static_cast<double>(options_.merged_requests * options_.merged_output);
    std::vector<std::vector<std::string>> lines = {{"adapters", "mixed tok/s",
                                                    "merged, switches free", "merged", "mixed/free",
                                                    "mixed/merged"}};
    Json::Array results;
    for (const MergingCase& c : cases) {
      const double mixed = Median(c.mixed);
      const double merged = Median(c.merged);
      const double switches = Median(c.switches);
      lines.push_back({std::to_string(c.num_adapters), Decimal(tokens / mixed, 1),
                       Decimal(tokens / merged, 1), Decimal(tokens / (merged + switches), 1),
                       Decimal(merged / mixed, 2), Decimal((merged + switches) / mixed, 2)});
      results.push_back(Json::Object{{"adapters", c.num_adapters},
                                     {"mixed_seconds", mixed},
                                     {"merged_seconds", merged},
                                     {"switch_seconds", switches}});
    }
    out_ << options_.merged_requests << " requests over so many adapters of rank "
         << options_.merged_rank
         << ": in one batch, or merged into the base model one after the other\n"
            "(a switch reads and writes each adapted matrix once, at the bandwidth measured beside "
            "it):\n"
         << AlignColumns(lines, 0) << std::endl;
    return {std::move(results)};
  }

  // --- Drafts --------------------------------------------------------------------------------

  struct DraftCase {
    int64_t num_alternatives = 1;
    int64_t batch = 1;
    std::vector<double> without;  // seconds of each pass
    std::vector<double> with;
    // Of all passes.
    int64_t num_drafted = 0;
    int64_t num_right = 0;
    int64_t num_steps = 0;
  };

  StatusOr<Json> RunDrafts() {
    ASSIGN_OR_RETURN(const auto files,
                     SyntheticFiles::Create({.shape = options_.shape}, *threads_));
    LocalRunnerOptions options = RunnerOptions(*files);
    options.max_model_len = options_.draft_prompt + options_.draft_output;
    ASSIGN_OR_RETURN(auto local, LocalRunner::Create(options, clock_));
    TimedRunner without(std::move(local), clock_);
    options.drafts = options_.drafts;
    ASSIGN_OR_RETURN(local, LocalRunner::Create(options, clock_));
    TimedRunner with(std::move(local), clock_);
    std::vector<DraftCase> cases;
    for (const int64_t n : options_.alternatives) {
      for (const int64_t batch : options_.draft_batches) {
        cases.push_back({.num_alternatives = n, .batch = batch});
      }
    }
    Progress progress = ShowRuns("drafts", cases.size());
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      for (DraftCase& c : cases) {
        ASSIGN_OR_RETURN(const double seconds, without.Run(DraftLoad(without.spec(), c, pass)));
        c.without.push_back(seconds);
        const wire::StepStats before = with.stats();
        ASSIGN_OR_RETURN(const double drafted, with.Run(DraftLoad(with.spec(), c, pass)));
        c.with.push_back(drafted);
        const wire::StepStats after = with.stats();
        c.num_drafted += after.num_draft_tokens - before.num_draft_tokens;
        c.num_right += after.num_accepted_tokens - before.num_accepted_tokens;
        c.num_steps += after.step - before.step;
        progress.Add(1);
      }
    }
    progress.Finish();
    return ReportDrafts(cases);
  }

  // Of the tokens only so many have a chance, which are so likely together, and so hot, that what
  // the model says of them does not matter.
  std::vector<wire::SequenceRequest> DraftLoad(const ModelSpec& spec, const DraftCase& c,
                                               int64_t pass) const {
    std::vector<wire::SequenceRequest> requests;
    for (int64_t i = 0; i < c.batch; ++i) {
      wire::SequenceRequest request = SyntheticRequest(
          spec.vocab_size, i, kBaseModel, options_.draft_prompt, options_.draft_output);
      request.sampling.temperature = 100;
      request.sampling.seed = static_cast<uint64_t>(pass * 1000 + i);
      for (int64_t k = 0; k < c.num_alternatives; ++k) {
        const int64_t token = (i * 31 + k * 7 + 3) % spec.vocab_size;
        request.sampling.logit_bias.emplace_back(static_cast<int32_t>(token), 1e5F);
      }
      requests.push_back(std::move(request));
    }
    return requests;
  }

  Json ReportDrafts(const std::vector<DraftCase>& cases) {
    std::vector<std::vector<std::string>> lines = {
        {"one of", "sequences", "tok/s without", "with drafts", "times", "right", "tokens a step"}};
    Json::Array results;
    for (const DraftCase& c : cases) {
      const double without = Median(c.without);
      const double with = Median(c.with);
      const auto tokens = static_cast<double>(c.batch * options_.draft_output);
      const auto passes = static_cast<double>(options_.passes);
      const std::string right =
          c.num_drafted == 0
              ? "no drafts"
              : Decimal(static_cast<double>(c.num_right) / static_cast<double>(c.num_drafted), 2);
      const double per_step = tokens * passes / static_cast<double>(c.num_steps);
      lines.push_back({std::to_string(c.num_alternatives), std::to_string(c.batch),
                       Decimal(tokens / without, 1), Decimal(tokens / with, 1),
                       Decimal(without / with, 2), right, Decimal(per_step, 1)});
      results.push_back(Json::Object{{"alternatives", c.num_alternatives},
                                     {"sequences", c.batch},
                                     {"seconds_without", without},
                                     {"seconds_with", with},
                                     {"drafted", c.num_drafted},
                                     {"right", c.num_right},
                                     {"steps", c.num_steps}});
    }
    out_ << "Drafts of up to " << options_.drafts.max_tokens
         << " tokens, where the next token is one of so many with the same chance; "
         << options_.draft_prompt << " tokens of prompt, which are in the time, and "
         << options_.draft_output << " of output:\n"
         << AlignColumns(lines, 0) << std::endl;
    return {std::move(results)};
  }

  const BenchAblationOptions& options_;
  std::ostream& out_;
  std::ostream& progress_out_;
  const Clock& clock_;
  kernels::Isa isa_ = kernels::Isa::kPortable;
  std::unique_ptr<ThreadPool> threads_;
  int64_t pool_bytes_ = 0;
};

Status CheckOptions(const BenchAblationOptions& options) {
  for (const double split : options.splits) {
    if (!(split > 0) || !(split < 1)) {
      return InvalidArgument(
          StrCat("--splits has ", split, "; a split is more than 0 and less than 1"));
    }
  }
  return OkStatus();
}

}  // namespace

Status BenchAblation(const BenchAblationOptions& options, std::ostream& out,
                     std::ostream& progress_out, const Clock& clock) {
  RETURN_IF_ERROR(CheckOptions(options));
  return Bench(options, out, progress_out, clock).Run();
}

}  // namespace aril

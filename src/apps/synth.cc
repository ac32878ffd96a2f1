// `aril synth`: models and adapters of real sizes without downloads.

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/progress.h"
#include "apps/synth_adapters.h"
#include "apps/synth_model.h"
#include "apps/synth_shapes.h"
#include "base/strings.h"
#include "tokenizer/tokenizer_folder.h"

namespace aril {
namespace {

const std::map<std::string, DType> kDTypeNames = {
    {"bf16", DType::kBF16},   {"bfloat16", DType::kBF16}, {"f16", DType::kF16},
    {"float16", DType::kF16}, {"f32", DType::kF32},       {"float32", DType::kF32}};

template <typename T>
T ValueOrExit(StatusOr<T> value) {
  ExitUnlessOk("synth", value.status());
  return *std::move(value);
}

// A tokenizer may not produce ids that the model has no embedding for.
Status CheckTokenizerFits(const SynthModelOptions& options, const ModelSpec& spec) {
  if (options.tokenizer_dir.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(options.tokenizer_dir));
  if (tokenizer->vocab_size() <= spec.vocab_size) return OkStatus();
  return InvalidArgument(StrCat(options.tokenizer_dir, ": the tokenizer has ",
                                tokenizer->vocab_size(), " tokens, more than the ", spec.vocab_size,
                                " of shape ", options.shape, "; name another --tokenizer"));
}

// Runs `write(pool, on_bytes_written)` under a progress display on standard error.
template <typename Write>
void RunWithProgress(const std::string& label, uint64_t total_bytes, int threads,
                     const Write& write) {
  RealClock clock;
  ThreadPool pool(threads);
  Progress progress(
      {.label = label, .total = total_bytes, .is_terminal = isatty(STDERR_FILENO) == 1}, std::cerr,
      clock);
  const Status status = write(pool, [&](uint64_t bytes) { progress.Add(bytes); });
  ExitUnlessOk("synth", status);
  progress.Finish();
}

struct CommonFlags {
  std::string dtype = "bf16";
  int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
};

void AddCommonFlags(CLI::App& app, CommonFlags& flags, uint64_t& seed, std::string& out_dir) {
  app.add_option("--seed", seed, "Same seed, same weights, on any machine")->capture_default_str();
  app.add_option("--dtype", flags.dtype, "Element type of the weights")
      ->check(CLI::IsMember(kDTypeNames))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "Threads that draw weights [one per core]")
      ->check(CLI::Range(1, 1024))
      ->default_str("");
  app.add_option("--out", out_dir, "New or empty directory to write")->required();
}

void AddSynthModel(CLI::App& synth) {
  struct Flags : CommonFlags {
    SynthModelOptions options;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* app = synth.add_subcommand("model", "Write a base model with random weights");
  app->add_option("--shape", flags->options.shape, "Whose sizes: " + Join(SynthShapeNames(), ", "))
      ->required();
  app->add_option("--tokenizer", flags->options.tokenizer_dir,
                  "Directory whose tokenizer files are copied beside the weights");
  AddCommonFlags(*app, *flags, flags->options.seed, flags->options.out_dir);
  app->callback([flags] {
    SynthModelOptions& options = flags->options;
    options.dtype = kDTypeNames.at(flags->dtype);
    const SynthModel model = ValueOrExit(PlanSynthModel(options));
    ExitUnlessOk("synth", CheckTokenizerFits(options, model.spec));
    RunWithProgress("writing " + options.out_dir, model.total_bytes, flags->threads,
                    [&](ThreadPool& pool, const OnBytesWritten& on_bytes) {
                      return WriteSynthModel(options, model, pool, on_bytes);
                    });
  });
}

void AddSynthAdapters(CLI::App& synth) {
  struct Flags : CommonFlags {
    SynthAdaptersOptions options;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* app = synth.add_subcommand("adapters", "Write LoRA adapters with random weights");
  app->add_option("--model", flags->options.model_dir, "Directory of the base model")->required();
  app->add_option("--count", flags->options.count, "How many: adapter-0000, adapter-0001, …")
      ->capture_default_str();
  app->add_option("--ranks", flags->options.ranks, "Ranks, given to the adapters in turn")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--targets", flags->options.targets,
                  "all-linear, or projections such as q_proj,v_proj")
      ->delimiter(',')
      ->capture_default_str();
  AddCommonFlags(*app, *flags, flags->options.seed, flags->options.out_dir);
  app->callback([flags] {
    SynthAdaptersOptions& options = flags->options;
    options.dtype = kDTypeNames.at(flags->dtype);
    const SynthAdapters adapters = ValueOrExit(PlanSynthAdapters(options));
    RunWithProgress(StrCat("writing ", options.count, " adapters to ", options.out_dir),
                    adapters.total_bytes, flags->threads,
                    [&](ThreadPool& pool, const OnBytesWritten& on_bytes) {
                      return WriteSynthAdapters(options, adapters, pool, on_bytes);
                    });
  });
}

}  // namespace

void AddSynthCommand(CLI::App& app) {
  CLI::App* synth =
      app.add_subcommand("synth", "Write models and adapters with random weights, to measure with");
  synth->require_subcommand(1);
  AddSynthModel(*synth);
  AddSynthAdapters(*synth);
}

}  // namespace aril

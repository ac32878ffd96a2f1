// `aril bench` on the command line.

#include <iostream>
#include <memory>

#include "apps/bench_ablation.h"
#include "apps/bench_flags.h"
#include "apps/bench_generate.h"
#include "apps/bench_growth.h"
#include "apps/bench_kernels.h"
#include "apps/bench_machine.h"
#include "apps/bench_step.h"
#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/synth_shapes.h"
#include "base/strings.h"

namespace aril {
namespace {

void AddServe(CLI::App& bench) {
  CLI::App* serve = bench.add_subcommand("serve", "Measure a server under load, over HTTP");
  auto flags = std::make_shared<BenchFlags>();
  AddBenchFlags(*serve, *flags);
  serve->callback([flags] {
    auto options = ResolveBenchFlags(*flags);
    ThrowUsageUnlessOk(options.status());
    ExitUnlessOk("bench serve", LoadBenchTrace(*flags, &*options));
    ThrowUsageUnlessOk(CheckBenchSweep(*options));
    ExitUnlessOk("bench serve", BenchServe(*options, RealClock()));
  });
}

// Where and how kernels run, and where the numbers go.
template <typename Options>
void AddMachineFlags(CLI::App& app, Options& options) {
  AddFlag(app, "--threads", options.threads, "Threads that compute; 0: one per core")
      ->check(CLI::Range(0, 1024));
  AddFlag(app, "--isa", options.isa, "Instruction set: auto, portable, avx2, avx512 or amx");
  AddFlag(app, "--json", options.json_path, "File to write all numbers to");
}

void AddDeviceFlag(CLI::App& app, std::string& device) {
  AddFlag(app, "--device", device, "cpu, or cuda: the GPU, against its own limits")
      ->check(CLI::IsMember({"cpu", "cuda"}));
}

void AddMachine(CLI::App& bench) {
  CLI::App* machine = bench.add_subcommand(
      "machine", "Measure what this machine can do at best: bandwidth and peak rates");
  auto options = std::make_shared<BenchMachineOptions>();
  AddMachineFlags(*machine, *options);
  AddDurationFlag(*machine, "--duration", options->duration, "250ms", "Time of each measurement");
  machine->callback(
      [options] { ExitUnlessOk("bench machine", BenchMachine(*options, std::cout, RealClock())); });
}

void AddKernels(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand(
      "kernels", "Measure each kernel against what this machine can do at best");
  auto options = std::make_shared<BenchKernelsOptions>();
  AddFlag(*command, "--shape", options->shapes, "Whose sizes: " + Join(SynthShapeNames(), ", "))
      ->delimiter(',');
  AddFlag(*command, "--kernel", options->kernels,
          "Which of " + Join(BenchKernelNames(), ", ") + " [all that the device has]")
      ->delimiter(',');
  AddDeviceFlag(*command, options->device);
  AddMachineFlags(*command, *options);
  AddFlag(*command, "--rows", options->rows, "Rows of matrix products")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  AddFlag(*command, "--lora-rows", options->lora_rows, "Rows of batches with adapters")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  AddFlag(*command, "--lora-projection", options->lora_projections,
          "That adapters change: " + Join(BenchLoraProjections(), ", "))
      ->delimiter(',');
  AddFlag(*command, "--lora-segment-rows", options->lora_segment_rows,
          "Rows that each adapter of a batch serves, instead of the four popularities")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  AddFlag(*command, "--rank", options->ranks, "Of adapters, in turns")
      ->delimiter(',')
      ->check(CLI::Range(1, 512));
  AddFlag(*command, "--context", options->contexts, "Tokens of sequences that decode")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  AddFlag(*command, "--sequences", options->sequences, "That decode at once")
      ->check(CLI::Range(1, 4096));
  AddFlag(*command, "--prefill", options->prefill_tokens, "Tokens of the prefill; 0: none")
      ->check(CLI::Range(0, 65536));
  AddFlag(*command, "--passes", options->passes, "Passes over the cases of a table")
      ->check(AtLeastOne());
  AddDurationFlag(*command, "--duration", options->duration, "50ms",
                  "Time of each measurement, and of each probe beside it");
  command->callback(
      [options] { ExitUnlessOk("bench kernels", BenchKernels(*options, std::cout, RealClock())); });
}

void AddStep(CLI::App& bench) {
  CLI::App* step = bench.add_subcommand(
      "step", "Measure the engine's steps against the least time this machine could take");
  auto options = std::make_shared<BenchStepOptions>();
  AddFlag(*step, "--shape", options->shape,
          "Whose sizes, with random weights: " + Join(SynthShapeNames(), ", "));
  AddFlag(*step, "--dtype", options->dtype, "auto, float32 or bfloat16");
  AddFlag(*step, "--quantization", options->quantization, "none, int8, int4 or nf4");
  AddDeviceFlag(*step, options->device);
  AddMachineFlags(*step, *options);
  AddFlag(*step, "--batch", options->batches, "Numbers of sequences that decode together")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  AddFlag(*step, "--adapters", options->num_adapters,
          "Different adapters of the step with adapters; 0: none")
      ->check(CLI::Range(0, 4096));
  AddFlag(*step, "--popularity", options->popularities,
          "Instead: steps of every batch with adapters as popular as distinct, uniform, skewed or "
          "identical, in turns, and prefills with an adapter")
      ->delimiter(',');
  AddFlag(*step, "--rank", options->rank, "Their rank")->check(CLI::Range(1, 512));
  AddFlag(*step, "--targets", options->targets,
          "What they change: all-linear, or projections such as q_proj,v_proj")
      ->delimiter(',');
  AddFlag(*step, "--context", options->contexts, "Tokens of each sequence that decodes, in turn")
      ->delimiter(',')
      ->check(AtLeastOne());
  AddFlag(*step, "--prefill", options->prefills, "Tokens of each prefill; 0: none")
      ->delimiter(',')
      ->check(CLI::Range(0, 65536));
  AddFlag(*step, "--steps", options->steps, "Timed steps of a pass")->check(AtLeastOne());
  AddFlag(*step, "--passes", options->passes, "Passes over all cases")->check(AtLeastOne());
  AddSizeFlag(*step, "--pool-bytes", options->pool_bytes,
              "Memory for KV cache and adapters, as of aril serve [what the device has for them]");
  AddFlag(
      *step, "--step-model", options->step_model_path,
      "File to write coefficients for aril simulate to, fitted to these steps: needs two values "
      "of --context, adapters and a prefill, better several");
  step->callback(
      [options] { ExitUnlessOk("bench step", BenchStep(*options, std::cout, RealClock())); });
}

void AddGrowth(CLI::App& bench) {
  CLI::App* growth = bench.add_subcommand(
      "growth", "Measure how a step's time grows with sequences, adapters, ranks and contexts");
  auto options = std::make_shared<BenchGrowthOptions>();
  AddFlag(*growth, "--shape", options->shape,
          "Whose sizes, with random weights: " + Join(SynthShapeNames(), ", "));
  AddFlag(*growth, "--dtype", options->dtype, "auto, float32 or bfloat16");
  AddFlag(*growth, "--quantization", options->quantization, "none, int8, int4 or nf4");
  AddMachineFlags(*growth, *options);
  const auto add_list = [&](const std::string& flag, std::vector<int64_t>& values, int most,
                            const std::string& text) {
    AddFlag(*growth, flag, values, text)->delimiter(',')->check(CLI::Range(1, most));
  };
  add_list("--batch", options->batches, 4096,
           "Numbers of sequences, each with its adapter or all with none");
  add_list("--adapters", options->adapters, 4096,
           "Numbers of adapters that the largest batch shares");
  add_list("--ranks", options->ranks, 512, "Ranks of each sequence's adapter");
  add_list("--context", options->contexts, 1 << 20, "Tokens of each sequence");
  AddFlag(*growth, "--sequences", options->sequences, "While ranks and contexts grow")
      ->check(CLI::Range(1, 4096));
  AddFlag(*growth, "--rank", options->rank, "While ranks do not")->check(CLI::Range(1, 512));
  AddFlag(*growth, "--steps", options->steps, "Timed steps of a pass")->check(AtLeastOne());
  AddFlag(*growth, "--passes", options->passes, "Passes over all cases")->check(AtLeastOne());
  AddFlag(*growth, "--svg", options->svg_path, "File to draw the four growths to");
  growth->callback(
      [options] { ExitUnlessOk("bench growth", BenchGrowth(*options, std::cout, RealClock())); });
}

void AddGenerate(CLI::App& bench) {
  CLI::App* generate = bench.add_subcommand(
      "generate", "Measure text generation with many adapters in a batch, and with one");
  auto options = std::make_shared<BenchGenerateOptions>();
  AddFlag(*generate, "--shape", options->shape,
          "Whose sizes, with random weights: " + Join(SynthShapeNames(), ", "));
  AddFlag(*generate, "--dtype", options->dtype, "auto, float32 or bfloat16");
  AddDeviceFlag(*generate, options->device);
  AddMachineFlags(*generate, *options);
  AddFlag(*generate, "--max-num-seqs", options->max_batch, "Most sequences in a batch")
      ->check(CLI::Range(1, 4096));
  AddFlag(*generate, "--lengths", options->lengths,
          "punica-short: prompts as in Punica's evaluation, outputs of 1 to 200 tokens; or "
          "punica:MAX: as in its code, both together below MAX");
  AddFlag(*generate, "--requests", options->num_requests, "Requests of a run")->check(AtLeastOne());
  AddFlag(*generate, "--restricted-requests", options->num_restricted,
          "The first so many are also run with one adapter in a batch; 0: none")
      ->check(CLI::NonNegativeNumber);
  AddFlag(*generate, "--adapters", options->num_adapters, "That there are")
      ->check(CLI::Range(1, 4096));
  AddFlag(*generate, "--rank", options->rank, "Their rank, on all linear modules")
      ->check(CLI::Range(1, 512));
  AddFlag(*generate, "--popularity", options->popularities,
          "Which adapters are asked for, in turns: distinct, uniform, skewed, identical, base or "
          "power:ALPHA")
      ->delimiter(',');
  AddFlag(*generate, "--seed", options->seed, "Same seed, same requests");
  AddFlag(*generate, "--passes", options->passes, "Passes over all cases")->check(AtLeastOne());
  generate->callback([options] {
    ExitUnlessOk("bench generate", BenchGenerate(*options, std::cout, std::cerr, RealClock()));
  });
}

void AddAblation(CLI::App& bench) {
  CLI::App* ablation = bench.add_subcommand(
      "ablation",
      "Measure what one pool, mixed batches and drafts bring, against a split pool, merging and "
      "none");
  auto options = std::make_shared<BenchAblationOptions>();
  AddFlag(*ablation, "--shape", options->shape,
          "Whose sizes, with random weights: " + Join(SynthShapeNames(), ", "));
  AddMachineFlags(*ablation, *options);
  AddFlag(*ablation, "--max-num-seqs", options->max_num_seqs, "Most sequences in a batch")
      ->check(CLI::Range(1, 4096));
  AddFlag(*ablation, "--passes", options->passes, "Passes over all cases")->check(AtLeastOne());
  AddFlag(*ablation, "--parts", options->parts, "What is measured")
      ->delimiter(',')
      ->check(CLI::IsMember({"pool", "merging", "drafts"}));
  AddFlag(*ablation, "--splits", options->splits, "Adapters' shares of the pools that are split")
      ->delimiter(',');
  AddSizeFlag(*ablation, "--pool-bytes", options->pool_bytes,
              "Of the pool [what a batch of the longer requests takes]");
  AddFlag(*ablation, "--merged-adapters", options->merged_adapters,
          "Numbers of adapters that are served mixed, and merged one after the other")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  AddFlag(*ablation, "--requests", options->merged_requests, "That they share")
      ->check(AtLeastOne());
  AddFlag(*ablation, "--phase-requests", options->phase_requests,
          "Requests of each of the pools' four phases, short ones and long ones in turns")
      ->check(AtLeastOne());
  AddFlag(*ablation, "--alternatives", options->alternatives,
          "Of how many tokens each is drawn, where drafts guess it")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  AddFlag(*ablation, "--draft-batches", options->draft_batches, "Sequences at once there")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  AddFlag(*ablation, "--draft-tokens", options->drafts.max_tokens, "Most tokens of a draft")
      ->check(CLI::Range(int64_t{1}, kMaxDraftRows - 1));
  ablation->callback([options] {
    ExitUnlessOk("bench ablation", BenchAblation(*options, std::cout, std::cerr, RealClock()));
  });
}

}  // namespace

void AddBenchCommand(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure");
  bench->require_subcommand(1);
  AddServe(*bench);
  AddMachine(*bench);
  AddKernels(*bench);
  AddStep(*bench);
  AddGrowth(*bench);
  AddGenerate(*bench);
  AddAblation(*bench);
}

}  // namespace aril

// A runner built from a model directory and adapter directories: everything between files on disk
// and a SequencePort.

#ifndef ARIL_RUNNER_LOCAL_RUNNER_H_
#define ARIL_RUNNER_LOCAL_RUNNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/adapter_set.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "base/work_queue.h"
#include "engine/engine.h"
#include "grammar/format_cache.h"
#include "grammar/token_table.h"
#include "kernels/cpu/context.h"
#include "model/model.h"
#include "model/weights.h"
#include "runner/compute_device.h"
#include "runner/runner.h"
#include "spec/model_spec.h"
#include "wire/admission.h"

namespace aril {

struct LocalRunnerOptions {
  std::string model_dir;
  std::vector<std::string> adapter_dirs;  // adapter i becomes AdapterId(i)
  std::string dtype = "auto";             // auto, float32, bfloat16, float16
  std::string quantization = "none";      // none, int8, int4, nf4
  std::string device = "cpu";             // auto, cpu, cuda
  std::string isa = "auto";               // auto, portable, avx2, avx512, amx
  int threads = 0;                        // 0: one per core
  int64_t max_num_seqs = 32;
  int64_t max_num_batched_tokens = 512;
  std::optional<int64_t> max_model_len;  // nullopt: what the model allows, and the pool holds
  std::optional<int64_t>
      pool_bytes;  // nullopt: what the limits above can use, at most 40 % of the free memory
  int64_t max_lora_rank = 512;
  // Of the files of adapters that are open; those that nobody uses are closed beyond it, least
  // recently used first. nullopt: no bound.
  std::optional<int64_t> adapter_host_cache_bytes;
  double adapter_pool_share = 1;  // of the pool's pages, that adapters may take, used or idle
  // Of the pool's pages, that sequences may take; cached prefixes that none of them uses do not
  // count. With adapter_pool_share it splits the pool, as other servers do.
  double kv_pool_share = 1;
  // Of the pages beside the longest context, that one tenant's pinned adapters may take; all
  // tenants' together may take as much, or a half if that is more.
  double tenant_pin_share = 1;
  bool enable_prefix_caching = true;
  int64_t min_cached_state_tokens = EngineOptions().min_cached_state_tokens;
  DraftOptions drafts;
  // Of a step, by tenants and their weights (EngineOptions).
  bool shares_rows = false;
  std::map<std::string, double> tenant_weights;
  bool lists_sequences = false;  // in each step's statistics, for a scheduler
  size_t max_queued = 4096;
  // Who is next, and who is turned away; empty: first come, first served.
  std::function<std::unique_ptr<wire::AdmissionControl>(int64_t pages_total, const SequencePages&)>
      make_admission;
  // What the model's tokens are as text, for requests with a format; empty: they are refused.
  std::function<std::shared_ptr<const grammar::TokenTable>(const ModelSpec&)> make_token_table;
  int64_t format_work = FormatTurns::kWork;  // for them (EngineOptions)
  bool more_adapters = false;                // come at run time, and want room in the pool
  // Where adapters are copied into the pool; empty: on a thread of the runner's. Whoever drives the
  // engine step by step wants them there at once.
  Residency::RunAside run_aside;
  LoadProgress progress;  // of the base model's weights
  // Where `device` finds a GPU; empty: OpenGpu.
  std::function<StatusOr<Gpu>()> open_gpu;
};

struct LoadedAdapter {
  AdapterId id;            // by which sequences may use it; kBaseModel if they may not
  int64_t rank = 0;        // the largest of a module
  int64_t bytes = 0;       // of its weights' file
  int64_t vocab_size = 0;  // LoraSpec's
};

// Where the known adapters' weights are.
struct AdapterTiers {
  int64_t in_pool = 0;  // sequences may use them at once
  int64_t on_host = 0;  // of the others, those whose files are open
  int64_t on_disk = 0;
  int64_t open_bytes = 0;  // of all open files
  int64_t num_closed = 0;  // so far, for want of adapter_host_cache_bytes
};

// One adapter that could not be opened.
struct AdapterFailure {
  size_t index;  // in adapter_dirs
  Status error;
};

class LocalRunner {
 public:
  // Loads the model and verifies all adapters. An error names file, field and fix. Adapters that
  // cannot be served are reported together in `failures`, and no runner is made; with `failures`
  // null the first such error is returned.
  static StatusOr<std::unique_ptr<LocalRunner>> Create(
      const LocalRunnerOptions& options, const Clock& clock,
      std::vector<AdapterFailure>* failures = nullptr);

  const ModelSpec& spec() const { return spec_; }
  int64_t max_model_len() const { return max_model_len_; }
  // One line on what was chosen: dtype, instruction set, threads, pool.
  std::string Description() const;

  Quantization quantization() const { return quantization_; }
  // Runners of one class give the same text: model, instruction set, number format, quantization.
  std::string NumericClass() const;

  wire::SequencePort& port() { return *runner_; }

  // What formats its sequences keep to: whoever asks first saves them the time. Any thread.
  const std::shared_ptr<grammar::FormatCache>& formats() const { return formats_; }

  // Verifies an adapter and says what it is; it stays unknown. InvalidArgument or NotFound says
  // what is wrong with it. Reads all its bytes, or with kFinite little; any thread.
  StatusOr<LoadedAdapter> VerifyAdapter(const Folder& dir, Adapter::Values values) const;
  // Verifies an adapter completely and makes it known.
  StatusOr<LoadedAdapter> LoadAdapter(const Folder& dir);
  // Makes an adapter known that LoadAdapter has verified before, in an earlier process perhaps. Its
  // files are opened when it is wanted first.
  AdapterId AddAdapter(const Folder& dir);
  // Opens an adapter, if it is not open, and keeps it so while what this returns exists. What is
  // wrong with its files is InvalidArgument or NotFound. Any thread.
  using OpenedAdapter = std::shared_ptr<const void>;
  StatusOr<OpenedAdapter> OpenAdapter(AdapterId id) const {
    ASSIGN_OR_RETURN(AdapterRef ref, adapters_.Find(id));
    return std::move(ref.adapter);
  }
  // Keeps it open if it is; else nullptr, without reading files. Any thread.
  OpenedAdapter FindOpenAdapter(AdapterId id) const { return adapters_.FindOpen(id); }
  // Lets an adapter be closed when it is not used (adapter_host_cache_bytes), and opened again from
  // where `find` finds the same files; whether it does is asked each time that they have been
  // copied into the pool, too. Any thread.
  void LetClose(AdapterId id, const std::function<StatusOr<Folder>()>& find);
  // Whether its files still are those that were opened, as LetClose's `find` says. Any thread.
  Status CheckAdapterFiles(AdapterId id) const { return adapters_.CheckFilesOf(id); }
  // Whether sequences may use it at once; whether its files are open. Any thread.
  bool IsInPool(AdapterId id) const { return engine_->IsInPool(id); }
  bool IsOpen(AdapterId id) const { return adapters_.IsOpen(id); }
  AdapterTiers CountAdapters() const;
  // Keeps an adapter in the pool while what this returns exists, which this object must outlive.
  // FailedPrecondition says what no room would be left for, or that the tenant has no share left;
  // else as OpenAdapter. Any thread.
  StatusOr<std::shared_ptr<const void>> PinAdapter(AdapterId id, const std::string& tenant) {
    return engine_->Pin(id, tenant);
  }
  // Bytes of the pool that each tenant's pinned adapters take. Any thread.
  std::map<std::string, int64_t> PinnedBytesByTenant() const;
  // Sequences that were accepted before run to their end. Any thread.
  void UnloadAdapter(AdapterId id) { adapters_.Remove(id); }
  // An adapter of the options, or that LoadAdapter has made known; it must not be unloaded.
  LoadedAdapter Describe(AdapterId id) const;
  void Start(wire::EventSink& sink) { runner_->Start(sink); }
  void Stop() { runner_->Stop(); }

  // For tests: the engine may be used directly while the runner is not started.
  Engine& engine() { return *engine_; }

 private:
  LocalRunner(std::unique_ptr<ThreadPool> threads, kernels::Isa isa, int64_t max_open_bytes)
      : threads_(std::move(threads)), context_(*threads_, isa), adapters_(max_open_bytes) {}

  StatusOr<Adapter> Open(const Folder& dir, Adapter::Values values) const;
  Status OpenAdapters(const LocalRunnerOptions& options, const Checkpoint& checkpoint,
                      std::vector<AdapterFailure>* failures);
  // The adapter, if the device can compute it.
  StatusOr<Adapter> CheckDevice(const std::string& dir, Adapter adapter) const;
  // Sets max_model_len_, num_pages_, max_adapter_pages_, max_kv_pages_, max_tenant_pinned_pages_
  // and max_pinned_pages_.
  Status SizePool(const LocalRunnerOptions& options, const Checkpoint& checkpoint,
                  BackendOptions backend);

  std::unique_ptr<ThreadPool> threads_;
  kernels::CpuContext context_;
  std::unique_ptr<ComputeDevice> device_;
  ModelSpec spec_;
  Quantization quantization_ = Quantization::kNone;
  AdapterSet adapters_;
  int64_t max_lora_rank_ = 0;
  int64_t max_model_len_ = 0;
  int32_t num_pages_ = 0;
  int64_t max_adapter_pages_ = 0;
  int64_t max_kv_pages_ = 0;
  int64_t max_tenant_pinned_pages_ = 0;
  int64_t max_pinned_pages_ = 0;  // of all tenants
  std::unique_ptr<Model> model_;
  std::unique_ptr<WorkQueue>
      copies_;  // of adapters into the pool; may be null; outlives the engine
  std::shared_ptr<grammar::FormatCache> formats_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace aril

#endif  // ARIL_RUNNER_LOCAL_RUNNER_H_

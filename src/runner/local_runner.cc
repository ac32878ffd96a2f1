#include "runner/local_runner.h"

#include <algorithm>
#include <limits>

#include "adapters/resident_adapter.h"
#include "base/check.h"
#include "base/checked.h"
#include "base/strings.h"
#include "model/max_model_len.h"
#include "model/pool_layout.h"
#include "spec/base_checkpoint.h"

namespace aril {
namespace {

// Far above any machine's cores: a larger number is a mistake, and would end in std::system_error.
constexpr int kMaxThreads = 1024;
// Of what may be pinned, by all tenants together, unless one may pin more: the others keep a half.
constexpr double kAllPinsShare = 0.5;
// Far above what the engine has under way: an adapter for each running sequence, and a few ahead.
constexpr size_t kMaxCopies = size_t{1} << 20;

// Where a row reads the weights of experts of its own: of Qwen3-30B-A3B, by six of its layers
// (docs/benchmarks.md).
constexpr double kRowsOfStepOfExperts = 1.4;

DraftOptions DraftsFor(const ModelSpec& spec, DraftOptions drafts) {
  if (spec.experts) drafts.rows_of_step = kRowsOfStepOfExperts;
  return drafts;
}

Status CheckDrafts(const ModelSpec& spec, const DraftOptions& drafts) {
  if (!spec.linear_attention || !drafts.looks_back || drafts.max_tokens == 0) return OkStatus();
  return Unimplemented(StrCat("--speculative-config is not supported for ", spec.architecture,
                              ", whose linear attention cannot go back behind a wrong guess: "
                              "leave it out"));
}

Status CheckOptions(const LocalRunnerOptions& options) {
  if (options.max_num_seqs < 1 || options.max_num_seqs > 4096) {
    return InvalidArgument(
        StrCat("--max-num-seqs is ", options.max_num_seqs, "; it must be from 1 to 4096"));
  }
  if (options.max_num_batched_tokens < options.max_num_seqs ||
      options.max_num_batched_tokens > 65536) {
    return InvalidArgument(StrCat("--max-num-batched-tokens is ", options.max_num_batched_tokens,
                                  "; it must be from --max-num-seqs (", options.max_num_seqs,
                                  ") to 65536"));
  }
  for (const auto& [flag, share] : {std::pair{"--adapter-pool-share", options.adapter_pool_share},
                                    std::pair{"--kv-pool-share", options.kv_pool_share}}) {
    // Not a number is not more than 0 either.
    if (!(share > 0) || share > 1) {
      return InvalidArgument(
          StrCat(flag, " is ", share, "; it must be more than 0 and at most 1, as 0.5 for a half"));
    }
  }
  if (!(options.tenant_pin_share >= 0) || options.tenant_pin_share > 1) {
    return InvalidArgument(StrCat("--tenant-pin-share is ", options.tenant_pin_share,
                                  "; it must be from 0 to 1, as 0.5 for a half"));
  }
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return InvalidArgument(StrCat("--threads is ", options.threads, "; it must be from 1 to ",
                                  kMaxThreads, ", or 0 for one per core"));
  }
  return OkStatus();
}

LoadedAdapter DescribeAs(AdapterId id, const Adapter& adapter) {
  return {.id = id,
          .rank = adapter.spec().MaxRank(),
          .bytes = adapter.file_bytes(),
          .vocab_size = adapter.spec().vocab_size};
}

}  // namespace

StatusOr<std::unique_ptr<LocalRunner>> LocalRunner::Create(const LocalRunnerOptions& options,
                                                           const Clock& clock,
                                                           std::vector<AdapterFailure>* failures) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const kernels::Isa isa, kernels::ChooseIsa(options.isa));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  auto threads = std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : cores);
  std::unique_ptr<LocalRunner> runner(new LocalRunner(
      std::move(threads), isa, options.adapter_host_cache_bytes.value_or(AdapterSet::kUnbounded)));

  ASSIGN_OR_RETURN(runner->spec_, LoadModelSpec(options.model_dir));
  const ModelSpec& spec = runner->spec_;
  RETURN_IF_ERROR(CheckDrafts(spec, options.drafts));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenBaseCheckpoint(options.model_dir, spec));
  ASSIGN_OR_RETURN(runner->quantization_, ChooseQuantization(options.quantization, spec));
  RoundLayers(spec, runner->quantization_, &checkpoint);
  ASSIGN_OR_RETURN(runner->device_, ChooseDevice(options.device, runner->context_,
                                                 options.open_gpu ? options.open_gpu : OpenGpu));
  RETURN_IF_ERROR(runner->OpenAdapters(options, checkpoint, failures));
  BackendOptions backend_options = {.quantization = runner->quantization_,
                                    .max_rows = options.max_num_batched_tokens,
                                    .progress = options.progress};
  ASSIGN_OR_RETURN(backend_options.dtype,
                   ChooseDType(options.dtype, checkpoint, runner->device_->has_float16()));
  ASSIGN_OR_RETURN(backend_options.layout, ChooseKvLayout(spec, backend_options.dtype));
  const kernels::KvLayout& layout = backend_options.layout;
  RETURN_IF_ERROR(runner->device_->CheckModel(spec, backend_options));
  RETURN_IF_ERROR(runner->SizePool(options, checkpoint, backend_options));
  backend_options.max_positions = runner->max_model_len_;
  auto backend = runner->device_->LoadBackend(std::move(checkpoint), spec, backend_options);
  if (!backend.ok()) return Annotate(backend.status(), options.model_dir);
  runner->model_ = std::make_unique<Model>(spec, layout, *std::move(backend));
  ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena,
                   runner->device_->MakeArena(runner->num_pages_, layout.page_bytes()));
  Residency::RunAside run_aside = options.run_aside;
  if (!run_aside) {
    runner->copies_ = std::make_unique<WorkQueue>(kMaxCopies);
    run_aside = [copies = runner->copies_.get()](auto copy) {
      CHECK(copies->TryPush(std::move(copy)));
    };
  }
  runner->formats_ = std::make_shared<grammar::FormatCache>(
      options.make_token_table ? options.make_token_table(spec) : nullptr);
  const EngineOptions engine_options{
      .max_num_seqs = options.max_num_seqs,
      .max_num_batched_tokens = options.max_num_batched_tokens,
      .max_model_len = runner->max_model_len_,
      .num_pages = runner->num_pages_,
      .max_adapter_pages = runner->max_adapter_pages_,
      .max_kv_pages = runner->max_kv_pages_,
      .max_owner_pinned_pages = runner->max_tenant_pinned_pages_,
      .max_pinned_pages = runner->max_pinned_pages_,
      .enable_prefix_caching = options.enable_prefix_caching,
      .min_cached_state_tokens = options.min_cached_state_tokens,
      .drafts = DraftsFor(spec, options.drafts),
      .shares_rows = options.shares_rows,
      .tenant_weights = options.tenant_weights,
      .lists_sequences = options.lists_sequences || options.make_admission,
      .formats = runner->formats_,
      .format_work = options.format_work,
      .run_aside = std::move(run_aside)};
  runner->engine_ = std::make_unique<Engine>(engine_options, *runner->model_, std::move(arena),
                                             runner->adapters_, runner->context_, clock);
  std::unique_ptr<wire::AdmissionControl> admission;
  if (options.make_admission) {
    admission = options.make_admission(runner->num_pages_, layout.pages());
  }
  runner->runner_ =
      std::make_unique<Runner>(*runner->engine_, options.max_queued, clock, std::move(admission));
  return runner;
}

Status LocalRunner::OpenAdapters(const LocalRunnerOptions& options, const Checkpoint& checkpoint,
                                 std::vector<AdapterFailure>* failures) {
  max_lora_rank_ = options.max_lora_rank;
  const BaseWeights weights{&checkpoint, context_.isa()};
  bool failed = false;
  for (size_t i = 0; i < options.adapter_dirs.size(); ++i) {
    auto adapter = Adapter::Open(options.adapter_dirs[i], spec_, options.max_lora_rank,
                                 Adapter::Values::kUnknown, weights);
    if (adapter.ok()) adapter = CheckDevice(options.adapter_dirs[i], *std::move(adapter));
    if (adapter.ok()) {
      adapters_.Add(std::move(*adapter));
      continue;
    }
    if (failures == nullptr) return adapter.status();
    failures->push_back({i, adapter.status()});
    failed = true;
  }
  return failed ? InvalidArgument("some adapters cannot be served") : OkStatus();
}

StatusOr<Adapter> LocalRunner::CheckDevice(const std::string& dir, Adapter adapter) const {
  const Status checked = device_->CheckAdapter(adapter.spec());
  if (!checked.ok()) return Annotate(checked, dir);
  return adapter;
}

StatusOr<Adapter> LocalRunner::Open(const Folder& dir, Adapter::Values values) const {
  const BaseWeights weights{&model_->checkpoint(), context_.isa()};
  ASSIGN_OR_RETURN(Adapter opened, Adapter::Open(dir, spec_, max_lora_rank_, values, weights));
  ASSIGN_OR_RETURN(Adapter adapter, CheckDevice(dir.path(), std::move(opened)));
  const kernels::KvLayout& layout = model_->layout();
  const int64_t pages = PagesForAdapter(adapter, layout.dtype, layout.page_bytes());
  if (const int64_t of_shortest = layout.pages().For(1); pages + of_shortest > num_pages_) {
    return InvalidArgument(StrCat(dir.path(), ": the adapter takes ", pages, " pages of ",
                                  layout.page_bytes(), " bytes, the shortest sequence ",
                                  of_shortest, ", and the whole pool has ", num_pages_,
                                  "; start the server with a larger --pool-bytes"));
  }
  if (pages > max_adapter_pages_) {
    return InvalidArgument(StrCat(dir.path(), ": the adapter takes ", pages,
                                  " pages, and all adapters together may take ", max_adapter_pages_,
                                  "; start the server with a larger --adapter-pool-share"));
  }
  return adapter;
}

StatusOr<LoadedAdapter> LocalRunner::VerifyAdapter(const Folder& dir,
                                                   Adapter::Values values) const {
  ASSIGN_OR_RETURN(const Adapter adapter, Open(dir, values));
  return DescribeAs(kBaseModel, adapter);
}

StatusOr<LoadedAdapter> LocalRunner::LoadAdapter(const Folder& dir) {
  ASSIGN_OR_RETURN(Adapter adapter, Open(dir, Adapter::Values::kUnknown));
  return Describe(adapters_.Add(std::move(adapter)));
}

AdapterId LocalRunner::AddAdapter(const Folder& dir) {
  return adapters_.AddUnopened([this, dir] { return Open(dir, Adapter::Values::kFinite); });
}

void LocalRunner::LetClose(AdapterId id, const std::function<StatusOr<Folder>()>& find) {
  const auto open = [this, find]() -> StatusOr<Adapter> {
    ASSIGN_OR_RETURN(const Folder dir, find());
    return Open(dir, Adapter::Values::kFinite);
  };
  adapters_.SetOpen(id, open, [find] { return find().status(); });
}

AdapterTiers LocalRunner::CountAdapters() const {
  AdapterTiers tiers = {.open_bytes = adapters_.open_bytes(), .num_closed = adapters_.num_closed()};
  for (const AdapterId id : adapters_.Ids()) {
    ++(IsInPool(id) ? tiers.in_pool : IsOpen(id) ? tiers.on_host : tiers.on_disk);
  }
  return tiers;
}

std::map<std::string, int64_t> LocalRunner::PinnedBytesByTenant() const {
  std::map<std::string, int64_t> bytes = engine_->PinnedPagesByOwner();
  for (auto& [tenant, pages] : bytes) pages *= model_->layout().page_bytes();
  return bytes;
}

LoadedAdapter LocalRunner::Describe(AdapterId id) const {
  const auto found = adapters_.Find(id);
  CHECK(found.ok() && found->adapter != nullptr);
  return DescribeAs(id, *found->adapter);
}

Status LocalRunner::SizePool(const LocalRunnerOptions& options, const Checkpoint& checkpoint,
                             BackendOptions backend) {
  const kernels::KvLayout& layout = backend.layout;
  const int64_t page_bytes = layout.page_bytes();
  int64_t adapter_pages = 0;
  int64_t largest_adapter = 0;
  for (int32_t id = 0; id < adapters_.size(); ++id) {
    const Adapter& adapter = *adapters_.Find(AdapterId(id))->adapter;
    const int64_t pages = PagesForAdapter(adapter, layout.dtype, page_bytes);
    adapter_pages += pages;
    largest_adapter = std::max(largest_adapter, pages);
  }
  ASSIGN_OR_RETURN(const int64_t model_len, ChooseMaxModelLen(options.max_model_len, spec_));
  const int64_t kv_pages = options.max_num_seqs * layout.pages().For(model_len);
  const int64_t useful_pages = adapter_pages + kv_pages + (options.more_adapters ? kv_pages : 0);
  backend.max_positions = model_len;
  ASSIGN_OR_RETURN(const PoolMemory memory, device_->MemoryForPool(checkpoint, spec_, backend));
  if (options.pool_bytes > memory.most) {
    return InvalidArgument(StrCat("--pool-bytes is ", *options.pool_bytes, ", but ",
                                  device_->memory_owner(), " has ", memory.most,
                                  " bytes of memory; give what the model leaves of it"));
  }
  int64_t pages = 0;
  if (options.pool_bytes.has_value()) {
    pages = *options.pool_bytes / page_bytes;
  } else {
    RETURN_IF_ERROR(memory.by_default.status());
    pages = *memory.by_default / page_bytes;
    if (memory.is_shared) pages = std::min(pages, useful_pages);
  }
  pages = std::min<int64_t>(pages, std::numeric_limits<int32_t>::max());
  max_kv_pages_ = static_cast<int64_t>(options.kv_pool_share * static_cast<double>(pages));
  const int64_t longest = layout.pages().TokensIn(std::min(pages - largest_adapter, max_kv_pages_));
  if (longest < 1 || (options.max_model_len.has_value() && longest < model_len)) {
    return InvalidArgument(StrCat(
        "the pool of ", pages, " pages of ", page_bytes, " bytes is too small: one sequence of ",
        options.max_model_len.value_or(1), " tokens and the largest adapter need ",
        largest_adapter + layout.pages().For(options.max_model_len.value_or(1)),
        " pages; raise --pool-bytes or --kv-pool-share, or lower --max-model-len"));
  }
  max_adapter_pages_ =
      static_cast<int64_t>(options.adapter_pool_share * static_cast<double>(pages));
  if (largest_adapter > max_adapter_pages_) {
    return InvalidArgument(StrCat("--adapter-pool-share ", options.adapter_pool_share,
                                  " of the pool's ", pages, " pages are ", max_adapter_pages_,
                                  ", and the largest adapter takes ", largest_adapter,
                                  "; raise --adapter-pool-share or --pool-bytes"));
  }
  max_model_len_ = std::min(model_len, longest);
  num_pages_ = static_cast<int32_t>(pages);
  const int64_t beside_context = pages - layout.pages().For(max_model_len_);
  const auto pinnable = static_cast<double>(std::min(beside_context, max_adapter_pages_));
  max_tenant_pinned_pages_ = static_cast<int64_t>(options.tenant_pin_share * pinnable);
  max_pinned_pages_ =
      static_cast<int64_t>(std::max(options.tenant_pin_share, kAllPinsShare) * pinnable);
  return OkStatus();
}

std::string LocalRunner::NumericClass() const {
  return StrCat(device_->name(), "/", model_->layout().dtype, "/", Name(quantization_));
}

std::string LocalRunner::Description() const {
  const kernels::KvLayout& layout = model_->layout();
  const std::string weights = quantization_ != Quantization::kNone
                                  ? StrCat(" with ", Name(quantization_), " weights")
                              : spec_.quantized ? " with the checkpoint's quantized weights"
                                                : "";
  return StrCat(spec_.architecture, spec_.is_multimodal ? " (its text model)" : "", " in ",
                layout.dtype, weights, " on ", device_->name(), ", ", threads_->num_threads(),
                " threads; pool of ", num_pages_, " pages of ", layout.page_bytes(), " bytes (",
                layout.page_tokens, " tokens each",
                layout.state.num_layers == 0
                    ? ""
                    : StrCat("; ", layout.state.num_pages(), " more for each sequence's state"),
                "); context of ", max_model_len_, " tokens; ", adapters_.size(), " adapters");
}

}  // namespace aril

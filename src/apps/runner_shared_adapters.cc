#include "apps/runner_shared_adapters.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "base/transfer_monitor.h"
#include "sources/source_url.h"

namespace aril {
namespace {

// Of transfers that nobody watches, and that end with the process.
class UnwatchedTransfer final : public TransferMonitor {
 public:
  explicit UnwatchedTransfer(const std::atomic<bool>& is_ending) : is_ending_(is_ending) {}
  bool IsCancelled() const override { return is_ending_; }
  void OnProgress(int64_t, int64_t) override {}
  bool Wait(Duration duration) override {
    for (; duration > Duration(0) && !is_ending_; duration -= kLook) {
      std::this_thread::sleep_for(std::min(duration, kLook));
    }
    return !is_ending_;
  }

 private:
  static constexpr Duration kLook = std::chrono::milliseconds(50);
  const std::atomic<bool>& is_ending_;
};

Status CheckDigest(const std::string& source, const std::string& digest, const std::string& found) {
  if (found == digest) return OkStatus();
  return FailedPrecondition(StrCat("what is at ", source, " is generation ", found,
                                   " now, and not ", digest,
                                   ": load the adapter again, or put its files back"));
}

}  // namespace

std::optional<cluster::SharedAdapterLoader::Ready> RunnerSharedAdapters::Find(
    const std::string& digest) {
  const GenerationPtr generation = FindKept(digest);
  if (generation == nullptr) return std::nullopt;
  Generation::Opened opened = generation->FindPrepared();
  if (opened == nullptr) return std::nullopt;
  return MakeReady(generation, std::move(opened));
}

void RunnerSharedAdapters::Load(const delivery::SharedAdapter& shared, const std::string& tenant,
                                Done done) {
  const auto post = [this, done = std::move(done)](StatusOr<Ready> ready) {
    loop_.Post([done, ready = std::move(ready)](TimePoint now) { done(ready, now); });
  };
  const bool is_queued = queue_.TryPush([this, shared, post] { post(Prepare(shared)); }, tenant);
  if (!is_queued) post(ResourceExhausted("too many adapters are being loaded"));
}

RunnerSharedAdapters::GenerationPtr RunnerSharedAdapters::FindKept(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return kept_.front();
}

void RunnerSharedAdapters::Keep(const GenerationPtr& generation) {
  GenerationPtr dropped;
  {
    const std::lock_guard lock(mutex_);
    if (by_digest_.contains((*generation)->digest)) return;
    kept_.push_front(generation);
    by_digest_[(*generation)->digest] = kept_.begin();
    if (kept_.size() <= options_.max_kept) return;
    dropped = std::move(kept_.back());
    by_digest_.erase((*dropped)->digest);
    kept_.pop_back();
  }
  Drop(std::move(dropped));
}

void RunnerSharedAdapters::Forget(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end()) return;
  kept_.erase(found->second);
  by_digest_.erase(found);
}

// What sequences still use stays in the store until the next start. All of it with the lock: who
// recalls these files meanwhile must find them whole or not at all.
void RunnerSharedAdapters::Drop(GenerationPtr generation) {
  if (remote_ == nullptr) return;
  const std::string digest = (*generation)->digest;
  const std::lock_guard lock(mutex_);
  if (generation.use_count() > 1 || by_digest_.contains(digest) || preparing_.contains(digest)) {
    return;
  }
  generation.reset();
  const Status removed = remote_->store().Remove(digest);
  if (!removed.ok()) LogWarning("an adapter's files stay: " + Message(removed));
}

StatusOr<RunnerSharedAdapters::GenerationPtr> RunnerSharedAdapters::Fetch(
    const std::string& source, const std::string& digest) {
  RETURN_IF_ERROR(remote_->Check(source));
  UnwatchedTransfer monitor(is_ending_);
  ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, remote_->Fetch(source, monitor));
  RETURN_IF_ERROR(CheckDigest(source, digest, incoming.digest()));
  ASSIGN_OR_RETURN(GenerationPtr generation, remote_->Open(incoming, source));
  RETURN_IF_ERROR(remote_->Keep(std::move(incoming), *generation));
  return generation;
}

StatusOr<RunnerSharedAdapters::GenerationPtr> RunnerSharedAdapters::Get(const std::string& source,
                                                                        const std::string& digest) {
  if (IsSourceUrl(source)) {
    if (remote_ != nullptr) return Fetch(source, digest);
    return FailedPrecondition(
        StrCat("the runner does not fetch ", source,
               ": start it with --state-dir, and --adapter-origin, --s3-endpoint or "
               "--hub-endpoint as the gateways"));
  }
  ASSIGN_OR_RETURN(GenerationPtr generation, local_.Load(source));
  const Status is_right = CheckDigest(source, digest, (*generation)->digest);
  if (is_right.ok()) return generation;
  Drop(std::move(generation));
  return is_right;
}

StatusOr<cluster::SharedAdapterLoader::Ready> RunnerSharedAdapters::Prepare(
    const delivery::SharedAdapter& shared) {
  {
    const std::lock_guard lock(mutex_);
    preparing_.insert(shared.digest);
  }
  StatusOr<Ready> ready = FindOrGet(shared);
  const std::lock_guard lock(mutex_);
  preparing_.erase(preparing_.find(shared.digest));
  return ready;
}

StatusOr<cluster::SharedAdapterLoader::Ready> RunnerSharedAdapters::FindOrGet(
    const delivery::SharedAdapter& shared) {
  const std::string& digest = shared.digest;
  GenerationPtr known = FindKept(digest);
  if (known == nullptr) {
    // A sequence may still use one that is not kept any more.
    if (auto recalled = local_.Recall(digest); recalled.ok()) known = *std::move(recalled);
  }
  if (known != nullptr) {
    StatusOr<Ready> ready = PrepareAndKeep(known);
    if (ready.ok()) return ready;
    Forget(digest);  // and load it anew
  }
  Status first = NotFound("nobody says any more where its files are: load the adapter again");
  for (size_t i = 0; i < shared.sources.size(); ++i) {
    if (shared.sources[i].empty()) continue;
    const auto generation = Get(shared.sources[i], digest);
    StatusOr<Ready> ready =
        generation.ok() ? PrepareAndKeep(*generation) : StatusOr<Ready>(generation.status());
    if (ready.ok()) return ready;
    // What is wrong with another tenant's source is for the log alone.
    if (i == 0) {
      first = ready.status();
    } else {
      LogWarning(StrCat("adapter ", digest, ": ", Message(ready.status())));
    }
  }
  return first;
}

StatusOr<cluster::SharedAdapterLoader::Ready> RunnerSharedAdapters::PrepareAndKeep(
    const GenerationPtr& generation) {
  StatusOr<Generation::Opened> opened = generation->Prepare();
  if (!opened.ok()) {
    // What is wrong with our own files, and where they are, is no business of clients.
    LogWarning(
        StrCat("adapter ", (*generation)->digest, " cannot be opened: ", Message(opened.status())));
    return MakeStatus(opened.status().code(),
                      "its files cannot be read; the runner's log says why");
  }
  Keep(generation);
  return MakeReady(generation, *std::move(opened));
}

cluster::SharedAdapterLoader::Ready RunnerSharedAdapters::MakeReady(
    const GenerationPtr& generation, Generation::Opened opened) const {
  const AdapterId id = (*generation)->adapter;
  return {.adapter = id,
          .pages = runner_.engine().PagesFor(id),
          .hold = std::make_shared<const std::pair<GenerationPtr, Generation::Opened>>(
              generation, std::move(opened))};
}

}  // namespace aril

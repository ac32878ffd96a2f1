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

Status CheckDigest(const delivery::SharedAdapter& shared, const std::string& found) {
  if (found == shared.digest) return OkStatus();
  return FailedPrecondition(StrCat("what is at ", shared.source, " is generation ", found,
                                   " now, and not ", shared.digest,
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

void RunnerSharedAdapters::Load(const delivery::SharedAdapter& shared, Done done) {
  const auto post = [this, done = std::move(done)](StatusOr<Ready> ready) {
    loop_.Post([done, ready = std::move(ready)](TimePoint now) { done(ready, now); });
  };
  const bool is_queued = queue_.TryPush([this, shared, post] { post(Prepare(shared)); });
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
    const delivery::SharedAdapter& shared) {
  RETURN_IF_ERROR(remote_->Check(shared.source));
  UnwatchedTransfer monitor(is_ending_);
  ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, remote_->Fetch(shared.source, monitor));
  RETURN_IF_ERROR(CheckDigest(shared, incoming.digest()));
  ASSIGN_OR_RETURN(GenerationPtr generation, remote_->Open(incoming, shared.source));
  RETURN_IF_ERROR(remote_->Keep(std::move(incoming), *generation));
  return generation;
}

StatusOr<RunnerSharedAdapters::GenerationPtr> RunnerSharedAdapters::Get(
    const delivery::SharedAdapter& shared) {
  // A sequence may still use one that is not kept any more.
  if (auto recalled = local_.Recall(shared.digest); recalled.ok()) return recalled;
  if (IsSourceUrl(shared.source)) {
    if (remote_ != nullptr) return Fetch(shared);
    return FailedPrecondition(
        StrCat("the runner does not fetch ", shared.source,
               ": start it with --state-dir, and --adapter-origin, --s3-endpoint or "
               "--hub-endpoint as the gateways"));
  }
  ASSIGN_OR_RETURN(GenerationPtr generation, local_.Load(shared.source));
  const Status is_right = CheckDigest(shared, (*generation)->digest);
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
  StatusOr<Ready> ready = GetAndPrepare(shared);
  const std::lock_guard lock(mutex_);
  preparing_.erase(preparing_.find(shared.digest));
  return ready;
}

StatusOr<cluster::SharedAdapterLoader::Ready> RunnerSharedAdapters::GetAndPrepare(
    const delivery::SharedAdapter& shared) {
  if (GenerationPtr kept = FindKept(shared.digest)) {
    StatusOr<Generation::Opened> opened = kept->Prepare();
    if (opened.ok()) return MakeReady(kept, *std::move(opened));
    LogWarning(StrCat("adapter ", shared.digest,
                      " is loaded anew, as it cannot be opened: ", Message(opened.status())));
    Forget(shared.digest);
  }
  ASSIGN_OR_RETURN(const GenerationPtr generation, Get(shared));
  ASSIGN_OR_RETURN(Generation::Opened opened, generation->Prepare());
  Keep(generation);
  return MakeReady(generation, std::move(opened));
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

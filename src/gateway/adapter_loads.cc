#include "gateway/adapter_loads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>

#include "base/log.h"
#include "base/strings.h"

namespace aril::gateway {

class AdapterLoads::Load final : public TransferMonitor {
 public:
  Load(Request request, Work work)
      : key_(request.tenant, request.name), request_(std::move(request)), work_(std::move(work)) {}

  bool IsCancelled() const override { return cancelled_; }
  void OnProgress(int64_t done_bytes, int64_t total_bytes) override {
    done_bytes_ = done_bytes;
    total_bytes_ = total_bytes;
  }
  bool Wait(Duration duration) override {
    std::unique_lock lock(wait_mutex_);
    return !wake_.wait_for(lock, duration, [this] { return cancelled_.load(); });
  }
  void Cancel() {
    {
      const std::lock_guard lock(wait_mutex_);
      cancelled_ = true;
    }
    wake_.notify_all();
  }

  // What a library throws (out of memory above all) harms this load alone.
  Status Run() {
    try {
      return work_(*this);
    } catch (const std::exception& exception) {
      LogError(StrCat("a load of an adapter ended: ", exception.what()));
      return Internal("the adapter could not be loaded; the server's log says why");
    }
  }

  const Key& key() const { return key_; }
  const std::string& tenant() const { return key_.first; }
  const std::string& identity() const { return request_.identity; }
  bool is_trial() const { return request_.is_trial; }
  AdapterLoadStatus Read() const {
    return {.state = state,
            .source = request_.source,
            .done_bytes = done_bytes_,
            .total_bytes = total_bytes_,
            .error = error};
  }

  // Guarded by the mutex of AdapterLoads.
  AdapterLoadStatus::State state = AdapterLoadStatus::State::kQueued;
  Status error;
  std::vector<std::function<void()>> waiters;
  std::vector<Done> dones;  // taken once, by whoever ends it

 private:
  const Key key_;
  const Request request_;
  const Work work_;
  std::atomic<int64_t> done_bytes_ = 0;
  std::atomic<int64_t> total_bytes_ = 0;
  std::mutex wait_mutex_;
  std::condition_variable wake_;
  std::atomic<bool> cancelled_ = false;
};

namespace {

Status Cancelled() {
  return MakeStatus(StatusCode::kCancelled,
                    "the load was cancelled: the adapter was changed or deleted meanwhile, or the "
                    "server is shutting down");
}

}  // namespace

AdapterLoads::AdapterLoads(Options options) : options_(options) {
  for (size_t i = 0; i < options_.max_parallel; ++i) threads_.emplace_back([this] { Loop(); });
}

AdapterLoads::~AdapterLoads() {
  std::vector<LoadPtr> loads;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    loads.assign(trials_.begin(), trials_.end());
    for (const auto& [key, load] : loads_) loads.push_back(load);
    queue_.clear();
  }
  for (const LoadPtr& load : loads) load->Cancel();
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  // Those that had not begun; of the others somebody has been told.
  for (const LoadPtr& load : loads) Finish(load, Cancelled());
}

size_t AdapterLoads::NumQueued(const std::string& tenant) const {
  return static_cast<size_t>(std::ranges::count(queue_, tenant, &Load::tenant));
}

Status AdapterLoads::Start(Request request, Work work, Done done) {
  auto load = std::make_shared<Load>(std::move(request), std::move(work));
  if (done) load->dones.push_back(std::move(done));
  const std::string& tenant = load->tenant();
  LoadPtr replaced;
  std::vector<Done> replaced_dones;
  {
    const std::lock_guard lock(mutex_);
    if (Join(*load)) return OkStatus();
    if (queue_.size() >= options_.max_queued ||
        NumQueued(tenant) >= options_.max_queued_per_tenant) {
      return ResourceExhausted(
          StrCat(queue_.size(), " adapters wait to be loaded already; please try again"));
    }
    if (load->is_trial()) {
      trials_.insert(load);
    } else {
      ForgetFailed(load->key());
      replaced = std::exchange(loads_[load->key()], load);
    }
    if (replaced != nullptr) {
      load->waiters = std::move(replaced->waiters);
      replaced->waiters.clear();
      replaced_dones = std::exchange(replaced->dones, {});
      std::erase(queue_, replaced);
    }
    queue_.push_back(load);
  }
  wake_.notify_one();
  if (replaced != nullptr) replaced->Cancel();
  for (const Done& replaced_done : replaced_dones) replaced_done(Cancelled());
  return OkStatus();
}

bool AdapterLoads::Join(Load& load) {
  const auto found = loads_.find(load.key());
  if (found == loads_.end() || load.identity().empty() || load.is_trial()) return false;
  Load& current = *found->second;
  if (current.state == AdapterLoadStatus::State::kFailed || current.IsCancelled()) return false;
  if (current.identity() != load.identity()) return false;
  std::ranges::move(load.dones, std::back_inserter(current.dones));
  return true;
}

bool AdapterLoads::Cancel(const std::string& tenant, const std::string& name) {
  LoadPtr load;
  {
    const std::lock_guard lock(mutex_);
    const auto found = loads_.find(Key(tenant, name));
    if (found == loads_.end()) return false;
    load = found->second;
    // Here already: whatever its own thread reports meanwhile is of a load that is no more.
    loads_.erase(found);
    ForgetFailed(load->key());
    std::erase(queue_, load);
  }
  load->Cancel();
  Finish(load, Cancelled());
  return true;
}

std::optional<AdapterLoadStatus> AdapterLoads::Find(std::string_view tenant,
                                                    std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = loads_.find(Key(tenant, name));
  if (found == loads_.end()) return std::nullopt;
  return found->second->Read();
}

std::vector<std::pair<std::string, AdapterLoadStatus>> AdapterLoads::List(
    std::string_view tenant) const {
  std::vector<std::pair<std::string, AdapterLoadStatus>> result;
  const std::lock_guard lock(mutex_);
  for (auto it = loads_.lower_bound(Key(tenant, "")); it != loads_.end(); ++it) {
    if (it->first.first != tenant) break;
    result.emplace_back(it->first.second, it->second->Read());
  }
  return result;
}

bool AdapterLoads::WhenOver(const std::string& tenant, const std::string& name,
                            std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  const auto found = loads_.find(Key(tenant, name));
  if (found == loads_.end() || found->second->state == AdapterLoadStatus::State::kFailed) {
    return false;
  }
  found->second->waiters.push_back(std::move(then));
  return true;
}

void AdapterLoads::Loop() {
  while (true) {
    LoadPtr load;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || (load = TakeNext()) != nullptr; });
      if (load == nullptr) return;
    }
    const Status status = load->IsCancelled() ? Cancelled() : load->Run();
    {
      const std::lock_guard lock(mutex_);
      const auto running = num_running_.find(load->tenant());
      if (--running->second == 0) num_running_.erase(running);
    }
    // There may be one of the same tenant that had to wait.
    wake_.notify_all();
    Finish(load, status);
  }
}

AdapterLoads::LoadPtr AdapterLoads::TakeNext() {
  for (auto it = queue_.begin(); !stop_ && it != queue_.end(); ++it) {
    const auto running = num_running_.find((*it)->tenant());
    if (running != num_running_.end() && running->second >= options_.max_parallel_per_tenant) {
      continue;
    }
    LoadPtr load = *it;
    queue_.erase(it);
    ++num_running_[load->tenant()];
    load->state = AdapterLoadStatus::State::kLoading;
    return load;
  }
  return nullptr;
}

void AdapterLoads::ForgetFailed(const Key& key) { std::erase(failed_, key); }

void AdapterLoads::Finish(const LoadPtr& load, const Status& status) {
  std::vector<std::function<void()>> waiters;
  std::vector<Done> dones;
  {
    const std::lock_guard lock(mutex_);
    trials_.erase(load);
    const auto found = loads_.find(load->key());
    const bool is_current = found != loads_.end() && found->second == load;
    if (is_current && (status.ok() || status.code() == StatusCode::kCancelled)) {
      loads_.erase(found);
    } else if (is_current) {
      load->state = AdapterLoadStatus::State::kFailed;
      load->error = status;
      failed_.push_back(load->key());
    }
    waiters = std::exchange(load->waiters, {});
    dones = std::exchange(load->dones, {});
    if (failed_.size() > options_.max_failed) {
      loads_.erase(failed_.front());
      failed_.pop_front();
    }
  }
  for (const Done& done : dones) done(status);
  for (const auto& waiter : waiters) waiter();
}

}  // namespace aril::gateway

// A test fixture: a gateway whose adapters come from elsewhere, when the test lets them.

#ifndef ARIL_GATEWAY_REMOTE_ADAPTERS_TEST_FIXTURE_H_
#define ARIL_GATEWAY_REMOTE_ADAPTERS_TEST_FIXTURE_H_

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/test_dir.h"
#include "gateway/adapter_loader.h"
#include "gateway/gateway_test_fixture.h"
#include "gateway/remote_loader.h"

namespace aril::gateway {

// Adapters in folders: none.
class NoFolders final : public AdapterLoader {
 public:
  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) override {
    if (source != "here") return NotFound("there is no folder " + source);
    return std::make_shared<const Generation>(
        Generation::Description{.adapter = AdapterId(50), .digest = "here", .rank = 1, .bytes = 1});
  }
  StatusOr<Generation::Description> Verify(const std::string&) override { return NotFound("none"); }
  StatusOr<std::shared_ptr<const Generation>> Recall(const std::string&) override {
    return NotFound("none");
  }
};

// Fetches "https://…" when the test lets it. What it fetches is the source itself.
class FakeRemote final : public RemoteLoader {
 public:
  bool IsRemote(const std::string& source) const override { return source.starts_with("https://"); }
  Status Check(const std::string& source) const override {
    return source == "https://evil" ? InvalidArgument("nothing is fetched from there") : OkStatus();
  }
  StatusOr<GenerationStore::Incoming> Fetch(const std::string& source,
                                            TransferMonitor& monitor) override {
    monitor.OnProgress(10, 20);
    {
      std::unique_lock lock(mutex_);
      fetching_.insert(source);
      changed_.notify_all();
      while (!released_.contains(source) && !monitor.IsCancelled()) {
        changed_.wait_for(lock, std::chrono::milliseconds(1));  // to see that it is cancelled
      }
      fetching_.erase(source);
    }
    if (monitor.IsCancelled()) return MakeStatus(StatusCode::kCancelled, "cancelled");
    if (source.find("missing") != std::string::npos) return NotFound(source + " has no weights");
    if (source.find("down") != std::string::npos) return Unavailable(source + " does not answer");
    ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, store_.Begin());
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
      std::ofstream(incoming.dir() + "/" + name) << source << name;
    }
    RETURN_IF_ERROR(GenerationStore::Seal(&incoming));
    return incoming;
  }
  StatusOr<std::shared_ptr<const Generation>> Open(const GenerationStore::Incoming& incoming,
                                                   const std::string& source) override {
    {
      std::unique_lock lock(mutex_);
      opening_.insert(source);
      changed_.notify_all();
      changed_.wait(lock, [&] { return !held_.contains(source); });
    }
    ASSIGN_OR_RETURN(Generation::Description description, Verify(incoming, source));
    return std::make_shared<const Generation>(
        description,
        Generation::Hooks{.pin = [source](const std::string&) { return Pin(source); }});
  }
  Status Keep(GenerationStore::Incoming, const Generation&) override {
    ++num_kept_;
    return OkStatus();
  }
  StatusOr<Generation::Description> Verify(const GenerationStore::Incoming& incoming,
                                           const std::string& source) override {
    const std::lock_guard lock(mutex_);
    if (source.find("broken") != std::string::npos) return InvalidArgument("tensor x is missing");
    return Generation::Description{.adapter = AdapterId(20 + num_taken_++),
                                   .digest = incoming.digest(),
                                   .rank = 8,
                                   .bytes = 4096};
  }
  const GenerationStore& store() const override { return store_; }

  int num_kept() const { return num_kept_; }

  void Release(const std::string& source) {
    const std::lock_guard lock(mutex_);
    released_.insert(source);
    changed_.notify_all();
  }
  void WaitUntilFetching(const std::string& source) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return fetching_.contains(source); });
  }
  // Verifying what comes from there takes until `hold` is false.
  void HoldVerifying(const std::string& source, bool hold) {
    const std::lock_guard lock(mutex_);
    if (hold) {
      held_.insert(source);
    } else {
      held_.erase(source);
    }
    changed_.notify_all();
  }
  void WaitUntilVerifying(const std::string& source) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return opening_.contains(source); });
  }
  // Nothing is left behind: what an answer was about goes on the server's thread, after it.
  void WaitUntilStoreIsEmpty() const {
    while (!std::filesystem::is_empty(dir_.path())) std::this_thread::yield();
  }

 private:
  static StatusOr<std::shared_ptr<const void>> Pin(const std::string& source) {
    if (source.find("huge") != std::string::npos) return FailedPrecondition("no pages are left");
    return std::make_shared<const int>(1);
  }

  TestDir dir_;
  const GenerationStore store_ = *GenerationStore::Open(dir_.path());
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> fetching_, released_, opening_, held_;
  int num_taken_ = 0;
  std::atomic<int> num_kept_ = 0;
};

class RemoteAdaptersApiTest : public GatewayTest {
 protected:
  RemoteAdaptersApiTest() {
    loader_ = &folders_;
    remote_ = &fake_;
  }
  // Timers run when the test says so.
  void StartWithTimers(GatewayOptions options = {}) {
    options.post_after = [this](Duration, std::function<void()> function) {
      const std::lock_guard lock(timers_mutex_);
      timers_.push_back(std::move(function));
      timers_changed_.notify_all();
    };
    Start(std::move(options));
  }
  void FireTimer(size_t index) {
    std::unique_lock lock(timers_mutex_);
    timers_changed_.wait(lock, [&] { return timers_.size() > index; });
    server_->Post(timers_[index]);
  }
  void WaitForTimers(size_t count) {
    std::unique_lock lock(timers_mutex_);
    timers_changed_.wait(lock, [&] { return timers_.size() >= count; });
  }
  HttpResponse Put(const std::string& name, const std::string& fields,
                   const std::string& query = "") {
    return Send("PUT", "/v1/adapters/" + name + query, "{" + fields + "}");
  }
  std::future<HttpResponse> AskLater(const std::string& model) {
    return std::async(std::launch::async, [this, model] { return AskModel(model); });
  }
  HttpResponse AskModel(const std::string& model) {
    return Send("POST", "/v1/completions", R"({"prompt":"hi","model":")" + model + R"("})");
  }
  Json Get(const std::string& name) { return Ask("GET", "/v1/adapters/" + name); }
  // Until the adapter is no longer being loaded.
  Json WaitUntilOver(const std::string& name) {
    while (true) {
      Json adapter = Get(name);
      const std::string load = Text(adapter, {"load", "status"});
      if (load != R"("queued")" && load != R"("loading")") return adapter;
      std::this_thread::yield();
    }
  }

  NoFolders folders_;
  FakeRemote fake_;
  std::mutex timers_mutex_;
  std::condition_variable timers_changed_;
  std::vector<std::function<void()>> timers_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REMOTE_ADAPTERS_TEST_FIXTURE_H_

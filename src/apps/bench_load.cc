#include "apps/bench_load.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "gateway/http_client.h"

namespace aril {
namespace {

// A request is written so long before it is sent: early enough not to be late, late enough that not
// every waiting client holds a prompt.
constexpr Duration kPrepareAhead = std::chrono::milliseconds(100);
// Servers close connections that are idle (llama-server after 5 s), maybe just when the next
// request is sent on one.
constexpr Duration kMaxIdle = std::chrono::seconds(1);

class Load {
 public:
  Load(const BenchTarget& target, const BenchModels& models, const Workload& workload,
       const LoadOptions& options, const Clock& clock)
      : target_(target), models_(models), workload_(workload), options_(options), clock_(clock) {}

  LoadResult Run() {
    result_.requests.resize(workload_.requests.size());
    std::vector<std::thread> clients = StartClients();
    start_ = clock_.Now();
    go_.count_down();
    for (std::thread& client : clients) client.join();
    result_.wall = clock_.Now() - start_;
    return std::move(result_);
  }

 private:
  bool is_open() const { return workload_.num_clients == 0; }

  int64_t NumClients() const {
    const auto num_requests = static_cast<int64_t>(workload_.requests.size());
    return std::min(num_requests, is_open() ? options_.max_in_flight : workload_.num_clients);
  }

  // They wait for go_. If the system gives fewer threads than asked for, the requests of an open
  // loop are sent late, as the records tell; a closed loop would be another one.
  std::vector<std::thread> StartClients() {
    std::vector<std::thread> clients;
    try {
      for (int64_t i = 0; i < NumClients(); ++i) clients.emplace_back([this] { RunClient(); });
    } catch (const std::system_error&) {
      if (is_open() && !clients.empty()) return clients;
      next_ = workload_.requests.size();
      go_.count_down();
      for (std::thread& client : clients) client.join();
      throw;
    }
    return clients;
  }

  // Takes the next request, again and again. In an open loop the requests ahead are so each with a
  // client that waits for its time, and none waits for the answers of others.
  void RunClient() {
    go_.wait();
    std::optional<gateway::HttpClient> http;
    TimePoint last_used = start_;
    for (size_t i = next_++; i < workload_.requests.size(); i = next_++) {
      const WorkloadRequest& asked = workload_.requests[i];
      SleepUntil(asked.arrival - kPrepareAhead);
      if (!http || clock_.Now() - last_used > kMaxIdle) http.emplace(target_.url, target_.timeout);
      RunRequest(asked, i, *http);
      last_used = clock_.Now();
      ReportDone();
    }
  }

  void RunRequest(const WorkloadRequest& asked, size_t idx, gateway::HttpClient& http) {
    const gateway::HttpRequest request = {
        .method = "POST",
        .path = "/v1/completions",
        .headers = target_.Headers(),
        .body = RequestBody(target_.field, models_, asked, idx, options_.request)};
    SleepUntil(asked.arrival);
    RequestRecord& record = result_.requests[idx];
    record.sent = clock_.Now() - start_;
    record.arrival = is_open() ? asked.arrival : record.sent;
    StreamReader reader(clock_, start_, &record);
    const auto response = http.SendStreaming(request, [&](std::string_view data) {
      reader.OnData(data);
      return true;
    });
    reader.Finish(response, asked);
  }

  // Returns at once in a closed loop, or when the time is past.
  void SleepUntil(Duration since_start) const {
    if (is_open()) std::this_thread::sleep_for(start_ + since_start - clock_.Now());
  }

  void ReportDone() {
    if (!options_.on_done) return;
    const std::lock_guard lock(on_done_mutex_);
    options_.on_done();
  }

  const BenchTarget& target_;
  const BenchModels& models_;
  const Workload& workload_;
  const LoadOptions& options_;
  const Clock& clock_;
  TimePoint start_;
  std::latch go_{1};
  std::atomic<size_t> next_{0};
  std::mutex on_done_mutex_;
  LoadResult result_;
};

}  // namespace

LoadResult RunLoad(const BenchTarget& target, const BenchModels& models, const Workload& workload,
                   const LoadOptions& options, const Clock& clock) {
  return Load(target, models, workload, options, clock).Run();
}

}  // namespace aril

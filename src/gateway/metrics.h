// What the server tells Prometheus. prometheus-cpp stays inside metrics.cc.
//
// Names: vLLM's where gateways and autoscalers read them (`vllm:`), `aril_` for the rest.
// docs/api.md lists them.

#ifndef ARIL_GATEWAY_METRICS_H_
#define ARIL_GATEWAY_METRICS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "wire/messages.h"

namespace aril::gateway {

// Of what is scraped.
inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Where the adapters' weights are (docs/api.md).
struct AdapterCounts {
  int64_t in_pool = 0;
  int64_t on_host = 0;
  int64_t on_disk = 0;
  int64_t open_bytes = 0;
  int64_t num_closed = 0;
  std::map<std::string, int64_t> pinned_bytes = {};  // in the pool, by tenant
};

// Thread-safe.
class Metrics {
 public:
  // Of which process: in a cluster, gateways know of requests and runners of steps, and neither
  // claims a zero for what it does not know.
  enum class Process { kServer, kGateway, kRunner };
  explicit Metrics(Process process = Process::kServer);
  ~Metrics();

  // How adapters and the base model (kBaseModel) are named, and how many adapters there are; both
  // are asked at each scrape. Until then they have no names.
  void SetAdapters(std::function<std::string(AdapterId)> name_of,
                   std::function<int64_t()> num_adapters);

  // Asked at each scrape; until then there is nothing of it.
  void SetAdapterCounts(std::function<AdapterCounts()> count);

  // An adapter's files were fetched, or could not be: verifying them comes after. `source`: as the
  // client named it; only its scheme becomes a label.
  void OnFetch(std::string_view source, const Status& outcome, int64_t bytes, Duration took);

  // After each step of the runner; of a cluster's gateway, how many of its sequences run and wait.
  void OnStep(const wire::StepStats& stats);

  // A request was answered. `route` is one of the server's own, never text of a client.
  void OnResponse(std::string_view route, int status);
  void OnFirstToken(Duration since_arrival);
  void OnNextToken(Duration since_last);
  void OnSequenceFinished(wire::FinishReason reason, Duration since_arrival);
  void OnRequestFinished();
  // What a request that has ended, however it did, is to be charged for.
  void OnUsage(const std::string& tenant, int64_t prompt_tokens, int64_t completion_tokens);
  void OnRequestFailed(int status);  // 429 and 503: it was refused
  void OnRequestCancelled();
  // A request was refused because its tenant is at a limit of its own: "tokens-per-minute", ….
  void OnLimitReached(const std::string& tenant, std::string_view limit);
  // A file with settings that had changed was read again, or could not be.
  void OnSettingsReload(const std::string& flag, const Status& outcome);
  void SetRequestsInFlight(int64_t count);

  // In the Prometheus text format, version 0.0.4. `now` is Unix time in seconds.
  std::string Scrape(int64_t now) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_METRICS_H_

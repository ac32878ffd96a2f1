// What the server tells Prometheus. prometheus-cpp stays inside metrics.cc.
//
// Names: vLLM's where gateways and autoscalers read them (`vllm:`), `aril_` for the rest.
// docs/api.md lists them.

#ifndef ARIL_GATEWAY_METRICS_H_
#define ARIL_GATEWAY_METRICS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/ids.h"
#include "wire/messages.h"

namespace aril::gateway {

// Where the adapters' weights are (docs/api.md).
struct AdapterTiers {
  int64_t in_pool = 0;
  int64_t on_host = 0;
  int64_t on_disk = 0;
  int64_t open_bytes = 0;
  int64_t num_closed = 0;
};

// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  // How adapters and the base model (kBaseModel) are named, and how many adapters there are; both
  // are asked at each scrape. Until then they have no names.
  void SetAdapters(std::function<std::string(AdapterId)> name_of,
                   std::function<int64_t()> num_adapters);

  // Asked at each scrape; until then there is nothing of it.
  void SetAdapterTiers(std::function<AdapterTiers()> count);

  // After each step of the runner.
  void OnStep(const wire::StepStats& stats);

  // A request was answered. `route` is one of the server's own, never text of a client.
  void OnResponse(std::string_view route, int status);
  void OnFirstToken(Duration since_arrival);
  void OnNextToken(Duration since_last);
  void OnSequenceFinished(wire::FinishReason reason, Duration since_arrival);
  void OnRequestFinished(const std::string& tenant, int64_t prompt_tokens,
                         int64_t completion_tokens);
  void OnRequestFailed();
  void OnRequestCancelled();
  void SetRequestsInFlight(int64_t count);

  // In the Prometheus text format, version 0.0.4. `now` is Unix time in seconds.
  std::string Scrape(int64_t now) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_METRICS_H_

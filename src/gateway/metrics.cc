#include "gateway/metrics.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gateway/metric_family.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace aril::gateway {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Buckets = prometheus::Histogram::BucketBoundaries;

// Adapters that are named in one scrape, in each list and family: waiting sequences alone may want
// thousands. Prometheus keeps a series for every name that it has ever seen.
constexpr size_t kMaxNames = 256;
constexpr const char* kOthers = "(others)";  // no adapter is called so

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// From 1 ms, where a token of a small model lies, to 5 minutes, where clients give up.
Buckets TimeBuckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
          0.5,   0.75,   1,     2.5,  5,     10,   20,    40,  80,   160, 300};
}

// Up to 20 minutes: --source-timeout is 10 unless it is said.
Buckets FetchBuckets() {
  return {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200};
}

// Exact up to 32, so that a benchmark can tell how many adapters shared a step.
Buckets CountBuckets() {
  Buckets buckets;
  for (int i = 0; i <= 32; ++i) buckets.push_back(i);
  for (int i = 48; i <= 128; i += 16) buckets.push_back(i);
  for (int i = 256; i <= 8192; i *= 2) buckets.push_back(i);
  return buckets;
}

// Of the schemes that there are: a client's text must not become a label.
std::string SchemeOf(std::string_view source) {
  for (const char* scheme : {"https", "s3", "hf"}) {
    if (source.starts_with(StrCat(scheme, "://"))) return scheme;
  }
  return "other";
}

std::string OutcomeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return "success";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kInvalidArgument:
      return "refused";
    case StatusCode::kUnavailable:
      return "unavailable";
    default:
      return "error";
  }
}

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Histogram& Histogram(prometheus::Registry& registry, const char* name, const char* help,
                                 const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

// A gauge for each value of one label.
MetricFamily GaugesBy(const char* label, const char* name, const char* help,
                      const std::vector<std::pair<const char*, int64_t>>& values) {
  MetricFamily family{name, help, MetricType::Gauge, {}};
  for (const auto& [value, number] : values) {
    ClientMetric metric;
    metric.label = {{label, value}};
    metric.gauge.value = static_cast<double>(number);
    family.metric.push_back(std::move(metric));
  }
  return family;
}

// Pages by what they hold.
MetricFamily PoolPages(const wire::StepStats& stats) {
  return GaugesBy("use", "aril_pool_pages", "Pages of the memory pool, by use",
                  {{"kv", stats.pages_kv},
                   {"adapter", stats.pages_adapter},
                   {"prefix", stats.pages_prefix},
                   {"free", stats.pages_free}});
}

MetricFamily UnusedBytes(const wire::StepStats& stats) {
  return GaugesBy("use", "aril_pool_unused_bytes",
                  "Bytes of pages in use that hold nothing, by use",
                  {{"kv", stats.unused_kv_bytes}, {"adapter", stats.unused_adapter_bytes}});
}

// The share of the pages that could hold KV now (those not held by adapters) that do, for sequences
// that run.
double KvUsage(const wire::StepStats& stats) {
  const int64_t available = stats.pages_total - stats.pages_adapter;
  return available > 0 ? static_cast<double>(stats.pages_kv) / static_cast<double>(available) : 0;
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(Process its_process) : process(its_process) {}

  std::vector<MetricFamily> CollectLoad() const;
  std::vector<MetricFamily> CollectRunner(int64_t now) const;
  std::vector<MetricFamily> CollectAdapters() const;
  std::string NameOf(AdapterId adapter) const;
  std::string NamesOf(int32_t wire::AdapterLoad::*count) const;
  MetricFamily LoraInfo(int64_t now) const;
  MetricFamily ModelSequences() const;

  const Process process;
  prometheus::Registry of_requests;
  prometheus::Family<prometheus::Counter>& responses =
      Counters(of_requests, "aril_http_responses_total", "Answers, by route and status");
  prometheus::Family<prometheus::Counter>& requests =
      Counters(of_requests, "aril_requests_total", "Completion requests, by outcome");
  prometheus::Family<prometheus::Counter>& sequences =
      Counters(of_requests, "aril_sequences_finished_total", "Sequences that ended by reason");
  prometheus::Family<prometheus::Counter>& tokens =
      Counters(of_requests, "aril_tokens_total", "Tokens of requests that have ended, by tenant");
  prometheus::Family<prometheus::Counter>& limits_reached =
      Counters(of_requests, "aril_tenant_limits_reached_total",
               "Requests refused because their tenant is at a limit of its own");
  prometheus::Family<prometheus::Counter>& settings_reloads =
      Counters(of_requests, "aril_settings_reloads_total",
               "Files with settings that were read again, by flag and outcome");
  prometheus::Gauge& in_flight = prometheus::BuildGauge()
                                     .Name("aril_requests_in_flight")
                                     .Help("Completion requests in work")
                                     .Register(of_requests)
                                     .Add({});
  prometheus::Histogram& first_token =
      Histogram(of_requests, "aril_time_to_first_token_seconds",
                "From arrival to a sequence's first token", TimeBuckets());
  prometheus::Histogram& inter_token =
      Histogram(of_requests, "aril_inter_token_latency_seconds",
                "Between a sequence's successive tokens", TimeBuckets());
  prometheus::Histogram& latency =
      Histogram(of_requests, "aril_request_latency_seconds",
                "From arrival to the end of a sequence", TimeBuckets());
  prometheus::Family<prometheus::Counter>& fetches =
      Counters(of_requests, "aril_source_fetches_total", "Adapters fetched, by scheme and outcome");
  prometheus::Family<prometheus::Counter>& fetched_bytes =
      Counters(of_requests, "aril_source_bytes_total", "Bytes of adapters that arrived, by scheme");
  prometheus::Family<prometheus::Histogram>& fetch_seconds =
      prometheus::BuildHistogram()
          .Name("aril_source_fetch_seconds")
          .Help("Fetching one adapter's files, by scheme")
          .Register(of_requests);
  prometheus::Registry of_steps;
  prometheus::Counter& prompt_tokens =
      Counters(of_steps, "vllm:prompt_tokens_total",
               "Prompt tokens computed, those computed again after an eviction included")
          .Add({});
  prometheus::Counter& generated_tokens =
      Counters(of_steps, "vllm:generation_tokens_total", "Tokens generated").Add({});
  prometheus::Histogram& step_seconds =
      Histogram(of_steps, "aril_step_seconds", "Time of one engine step", TimeBuckets());
  prometheus::Histogram& step_rows = Histogram(
      of_steps, "aril_step_rows", "Rows (tokens computed) per engine step", CountBuckets());
  prometheus::Histogram& step_segments =
      Histogram(of_steps, "aril_step_segments", "Runs of rows with one adapter per engine step",
                CountBuckets());
  prometheus::Histogram& step_adapters =
      Histogram(of_steps, "aril_step_adapters",
                "Different adapters per engine step, the base model not counted", CountBuckets());
  prometheus::Histogram& queue_seconds =
      Histogram(of_steps, "aril_queue_time_seconds", "From a sequence's arrival to its first step",
                TimeBuckets());
  prometheus::Histogram& adapter_load_seconds =
      Histogram(of_steps, "aril_adapter_load_seconds",
                "Copying one adapter's weights into the pool", TimeBuckets());

  mutable std::mutex mutex;  // guards what follows
  std::optional<wire::StepStats> last;
  std::function<std::string(AdapterId)> name_of;
  std::function<int64_t()> num_adapters;
  std::function<AdapterCounts()> count_adapters;
};

// "" before names are known.
std::string Metrics::Impl::NameOf(AdapterId adapter) const {
  return name_of ? name_of(adapter) : "";
}

// Of the adapters for which `count` is not 0, separated by commas; of too many, the first.
std::string Metrics::Impl::NamesOf(int32_t wire::AdapterLoad::*count) const {
  std::vector<std::string> names;
  for (const wire::AdapterLoad& load : last->adapters) {
    if (load.adapter == kBaseModel || load.*count == 0) continue;
    if (names.size() == kMaxNames) break;
    std::string name = NameOf(load.adapter);
    // A name that has just moved stands for two adapters.
    if (!name.empty() && std::ranges::find(names, name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  return Join(names, ",");
}

MetricFamily Metrics::Impl::LoraInfo(int64_t now) const {
  return MakeFamily("vllm:lora_requests_info", "Adapters of running and waiting sequences",
                    MetricType::Gauge,
                    {{"max_lora", std::to_string(num_adapters ? num_adapters() : 0)},
                     {"running_lora_adapters", NamesOf(&wire::AdapterLoad::num_running)},
                     {"waiting_lora_adapters", NamesOf(&wire::AdapterLoad::num_waiting)}},
                    static_cast<double>(now));
}

// Of models with live sequences only, and of those with the most: the number of series does not
// grow with that of adapters.
MetricFamily Metrics::Impl::ModelSequences() const {
  MetricFamily family{"aril_model_sequences",
                      "Live sequences, by model (an adapter or the base model) and state",
                      MetricType::Gauge,
                      {}};
  struct Counts {
    int32_t running = 0;
    int32_t waiting = 0;
  };
  std::map<std::string, Counts> by_name;
  for (const wire::AdapterLoad& load : last->adapters) {
    Counts& counts = by_name[NameOf(load.adapter)];
    counts.running += load.num_running;
    counts.waiting += load.num_waiting;
  }
  std::vector<std::pair<std::string, Counts>> shown(by_name.begin(), by_name.end());
  if (shown.size() > kMaxNames) {
    // Of as many, the first by name, so that a series does not come and go.
    std::ranges::stable_sort(shown, std::greater(), [](const auto& entry) {
      return entry.second.running + entry.second.waiting;
    });
    Counts others;
    for (size_t i = kMaxNames; i < shown.size(); ++i) {
      others.running += shown[i].second.running;
      others.waiting += shown[i].second.waiting;
    }
    shown.resize(kMaxNames);
    shown.emplace_back(kOthers, others);
  }
  for (const auto& [name, counts] : shown) {
    const std::pair<const char*, int32_t> states[] = {{"running", counts.running},
                                                      {"waiting", counts.waiting}};
    for (const auto& [state, count] : states) {
      ClientMetric metric;
      metric.label = {{"model", name}, {"state", state}};
      metric.gauge.value = count;
      family.metric.push_back(std::move(metric));
    }
  }
  return family;
}

// What a gateway's own sequences do is known there, too.
std::vector<MetricFamily> Metrics::Impl::CollectLoad() const {
  const std::lock_guard lock(mutex);
  if (!last) return {};
  return {Gauge("vllm:num_requests_running", "Sequences in the batch", last->num_running),
          Gauge("vllm:num_requests_waiting", "Sequences that wait", last->num_waiting)};
}

std::vector<MetricFamily> Metrics::Impl::CollectRunner(int64_t now) const {
  const std::lock_guard lock(mutex);
  if (!last) return {};
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  return {
      Gauge("vllm:kv_cache_usage_perc", "Used share of the pages open to KV, 0 to 1",
            KvUsage(*last)),
      LoraInfo(now),
      ModelSequences(),
      MakeFamily("vllm:cache_config_info", "The KV cache: tokens per page and pages",
                 MetricType::Gauge,
                 {{"block_size", std::to_string(last->page_tokens)},
                  {"num_gpu_blocks", std::to_string(last->pages_total)}},
                 1),
      PoolPages(*last),
      UnusedBytes(*last),
      Counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache",
              number(last->prefix_queries)),
      Counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache",
              number(last->prefix_hits)),
      Counter("vllm:spec_decode_num_drafts_total", "Drafts tried", number(last->num_drafts)),
      Counter("vllm:spec_decode_num_draft_tokens_total", "Tokens of drafts tried",
              number(last->num_draft_tokens)),
      Counter("vllm:spec_decode_num_accepted_tokens_total", "Tokens of drafts that were right",
              number(last->num_accepted_tokens)),
      Gauge("aril_pool_page_bytes", "Size of a page", number(last->page_bytes)),
      Counter("aril_evictions_total", "Sequences evicted for want of pages",
              number(last->evictions)),
      Counter("aril_adapter_loads_total", "Adapters copied into the pool",
              number(last->adapter_loads)),
      Counter("aril_adapter_evictions_total", "Adapters dropped from the pool",
              number(last->adapter_evictions)),
      Counter("aril_steps_total", "Engine steps run", number(last->step)),
  };
}

std::vector<MetricFamily> Metrics::Impl::CollectAdapters() const {
  std::function<AdapterCounts()> count;
  {
    const std::lock_guard lock(mutex);
    count = count_adapters;
  }
  if (!count) return {};
  const AdapterCounts tiers = count();
  std::vector<std::pair<const char*, int64_t>> pinned;
  for (const auto& [tenant, bytes] : tiers.pinned_bytes) pinned.emplace_back(tenant.c_str(), bytes);
  return {GaugesBy("tenant", "aril_adapter_pinned_bytes",
                   "Bytes of the pool that pinned adapters keep, by tenant", pinned),
          GaugesBy("residence", "aril_adapters", "Adapters, by where their weights are",
                   {{"pool", tiers.in_pool}, {"host", tiers.on_host}, {"disk", tiers.on_disk}}),
          Gauge("aril_adapter_host_bytes", "Size of the adapters' files that are open",
                static_cast<double>(tiers.open_bytes)),
          Counter("aril_adapter_host_closes_total",
                  "Adapters' files closed because the open ones were too large",
                  static_cast<double>(tiers.num_closed))};
}

Metrics::Metrics(Process process) : impl_(std::make_unique<Impl>(process)) {}
Metrics::~Metrics() = default;

void Metrics::SetAdapters(std::function<std::string(AdapterId)> name_of,
                          std::function<int64_t()> num_adapters) {
  const std::lock_guard lock(impl_->mutex);
  impl_->name_of = std::move(name_of);
  impl_->num_adapters = std::move(num_adapters);
}

void Metrics::SetAdapterCounts(std::function<AdapterCounts()> count) {
  const std::lock_guard lock(impl_->mutex);
  impl_->count_adapters = std::move(count);
}

void Metrics::OnFetch(std::string_view source, const Status& outcome, int64_t bytes,
                      Duration took) {
  const std::string scheme = SchemeOf(source);
  impl_->fetches.Add({{"scheme", scheme}, {"outcome", OutcomeOf(outcome)}}).Increment();
  impl_->fetched_bytes.Add({{"scheme", scheme}}).Increment(static_cast<double>(bytes));
  impl_->fetch_seconds.Add({{"scheme", scheme}}, FetchBuckets()).Observe(Seconds(took));
}

void Metrics::OnStep(const wire::StepStats& stats) {
  // A runner may report without having run a batch (a cancellation while it waits, or the end of
  // what a device was given before).
  if (stats.num_rows > 0) {
    impl_->step_seconds.Observe(Seconds(stats.step_time));
    impl_->step_rows.Observe(stats.num_rows);
    impl_->step_segments.Observe(stats.num_segments);
    impl_->step_adapters.Observe(stats.num_adapters);
  }
  impl_->prompt_tokens.Increment(stats.num_prefill_rows);
  impl_->generated_tokens.Increment(stats.num_generated);
  for (const Duration time : stats.queue_times) impl_->queue_seconds.Observe(Seconds(time));
  for (const Duration time : stats.adapter_load_times) {
    impl_->adapter_load_seconds.Observe(Seconds(time));
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->last = stats;
}

void Metrics::OnResponse(std::string_view route, int status) {
  impl_->responses.Add({{"route", std::string(route)}, {"status", std::to_string(status)}})
      .Increment();
}

void Metrics::OnFirstToken(Duration since_arrival) {
  impl_->first_token.Observe(Seconds(since_arrival));
}

void Metrics::OnNextToken(Duration since_last) { impl_->inter_token.Observe(Seconds(since_last)); }

void Metrics::OnSequenceFinished(wire::FinishReason reason, Duration since_arrival) {
  const char* name = reason == wire::FinishReason::kStop ? "stop" : "length";
  impl_->sequences.Add({{"reason", name}}).Increment();
  impl_->latency.Observe(Seconds(since_arrival));
}

void Metrics::OnRequestFinished() { impl_->requests.Add({{"outcome", "success"}}).Increment(); }

void Metrics::OnUsage(const std::string& tenant, int64_t prompt_tokens, int64_t completion_tokens) {
  impl_->tokens.Add({{"tenant", tenant}, {"kind", "prompt"}})
      .Increment(static_cast<double>(prompt_tokens));
  impl_->tokens.Add({{"tenant", tenant}, {"kind", "generated"}})
      .Increment(static_cast<double>(completion_tokens));
}

void Metrics::OnRequestFailed(int status) {
  const bool is_refused = status == 429 || status == 503;
  impl_->requests.Add({{"outcome", is_refused ? "refused" : "error"}}).Increment();
}

void Metrics::OnRequestCancelled() { impl_->requests.Add({{"outcome", "cancelled"}}).Increment(); }

void Metrics::OnLimitReached(const std::string& tenant, std::string_view limit) {
  impl_->limits_reached.Add({{"tenant", tenant}, {"limit", std::string(limit)}}).Increment();
}

void Metrics::OnSettingsReload(const std::string& flag, const Status& outcome) {
  impl_->settings_reloads.Add({{"flag", flag}, {"outcome", outcome.ok() ? "success" : "error"}})
      .Increment();
}

void Metrics::SetRequestsInFlight(int64_t count) {
  impl_->in_flight.Set(static_cast<double>(count));
}

std::string Metrics::Scrape(int64_t now) const {
  std::vector<MetricFamily> families;
  const auto add = [&families](std::vector<MetricFamily> more) {
    std::ranges::move(more, std::back_inserter(families));
  };
  if (impl_->process != Process::kRunner) add(impl_->of_requests.Collect());
  add(impl_->CollectLoad());
  if (impl_->process != Process::kGateway) {
    add(impl_->of_steps.Collect());
    add(impl_->CollectRunner(now));
  }
  add(impl_->CollectAdapters());
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace aril::gateway

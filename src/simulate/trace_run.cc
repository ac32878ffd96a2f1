#include "simulate/trace_run.h"

#include <algorithm>
#include <utility>

namespace aril::simulate {
namespace {

// For the elections and greetings at the start.
constexpr Duration kWarmUp = std::chrono::seconds(10);
// How often busy runners are counted.
constexpr Duration kLook = std::chrono::milliseconds(500);
constexpr Duration kMaxTail = std::chrono::hours(2);

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

class TraceRun {
 public:
  TraceRun(const WorldOptions& options, const std::vector<TraceRequest>& requests,
           Duration interval)
      : num_runners_(options.num_runners),
        requests_(requests),
        interval_(interval),
        world_(options) {}

  TraceResult Run() {
    OpenNext();
    const Duration last = requests_.empty() ? Duration(0) : requests_.back().arrival;
    const TimePoint latest = start_ + last + kMaxTail;
    std::vector<bool> was_busy(static_cast<size_t>(num_runners_));
    TimePoint sample_end = start_ + interval_;
    for (TimePoint now = start_; now < latest && !IsDone(); now += kLook) {
      world_.RunUntil(now);
      if (!world_.checker().violation().empty()) break;
      Count(was_busy);
      if (now < sample_end) continue;
      Sample(now);
      sample_end += interval_;
    }
    Finish();
    return std::move(result_);
  }

 private:
  bool IsDone() const { return next_ == requests_.size() && world_.checker().num_live() == 0; }

  // One event ahead at a time: an hour's requests need not all lie in the loop's heap.
  void OpenNext() {
    if (next_ == requests_.size()) return;
    world_.loop().At(start_ + requests_[next_].arrival, [this] {
      const TraceRequest& request = requests_[next_++];
      world_.Open(0, {.sequence = SequenceId(static_cast<int64_t>(next_)),
                      .adapter = AdapterId(static_cast<int32_t>(request.adapter)),
                      .adapter_pages = request.adapter < 0 ? 0 : request.adapter_pages,
                      .num_prompt = request.prompt_tokens,
                      .num_output = request.output_tokens,
                      .blocks = request.blocks});
      OpenNext();
    });
  }

  void Count(std::vector<bool>& was_busy) {
    int64_t num_busy = 0;
    for (int i = 0; i < num_runners_; ++i) {
      const bool is_busy = world_.Model(i)->num_sequences() > 0;
      num_busy += is_busy ? 1 : 0;
      result_.num_activations += is_busy && !was_busy[static_cast<size_t>(i)] ? 1 : 0;
      was_busy[static_cast<size_t>(i)] = is_busy;
    }
    result_.gpu_hours += static_cast<double>(num_busy) * Seconds(kLook) / 3600;
    result_.peak_runners = std::max(result_.peak_runners, num_busy);
  }

  void Sample(TimePoint now) {
    const int64_t num_tokens = world_.checker().num_tokens();
    TraceSample sample;
    sample.seconds = Seconds(now - start_);
    sample.requests_per_s = static_cast<double>(next_ - sampled_requests_) / Seconds(interval_);
    sample.tokens_per_s = static_cast<double>(num_tokens - sampled_tokens_) / Seconds(interval_);
    for (int i = 0; i < num_runners_; ++i) {
      sample.batches.push_back(static_cast<int64_t>(world_.Model(i)->num_sequences()));
    }
    sampled_requests_ = next_;
    sampled_tokens_ = num_tokens;
    result_.samples.push_back(std::move(sample));
  }

  void Finish() {
    const StreamChecker& checker = world_.checker();
    result_.violation = checker.violation();
    result_.num_finished = checker.Count(StreamEnd::kFinished);
    result_.num_failed = static_cast<int64_t>(checker.streams().size()) - result_.num_finished;
    result_.num_tokens = checker.num_tokens();
    for (int i = 0; i < num_runners_; ++i) result_.num_cached += world_.Model(i)->num_cached();
    for (const auto& [id, stream] : checker.streams()) {
      result_.seconds = std::max(result_.seconds, Seconds(stream.ended - start_));
      if (stream.attempt == 0) continue;
      result_.queue_seconds.push_back(Seconds(stream.started - stream.opened));
      if (stream.num_tokens == 0) continue;
      result_.first_token_seconds.push_back(Seconds(stream.first_token - stream.opened));
      if (stream.end != StreamEnd::kFinished || stream.num_tokens < 2) continue;
      result_.token_seconds.push_back(Seconds(stream.ended - stream.first_token) /
                                      static_cast<double>(stream.num_tokens - 1));
    }
    std::sort(result_.queue_seconds.begin(), result_.queue_seconds.end());
    std::sort(result_.first_token_seconds.begin(), result_.first_token_seconds.end());
    std::sort(result_.token_seconds.begin(), result_.token_seconds.end());
    if (world_.Leader() != nullptr) result_.scheduler = world_.Leader()->stats();
  }

  const int num_runners_;
  const std::vector<TraceRequest>& requests_;
  const Duration interval_;
  World world_;
  const TimePoint start_{kWarmUp};
  size_t next_ = 0;
  size_t sampled_requests_ = 0;
  int64_t sampled_tokens_ = 0;
  TraceResult result_;
};

}  // namespace

TraceResult RunTrace(WorldOptions options, const std::vector<TraceRequest>& requests,
                     Duration interval) {
  options.num_schedulers = 1;
  options.num_gateways = 1;
  options.checks_every_event = false;
  return TraceRun(options, requests, interval).Run();
}

}  // namespace aril::simulate

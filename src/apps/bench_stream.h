// What one stream of a completion said, and when.

#ifndef ARIL_APPS_BENCH_STREAM_H_
#define ARIL_APPS_BENCH_STREAM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench_workload.h"
#include "base/clock.h"
#include "base/status.h"
#include "gateway/http_client.h"
#include "gateway/sse.h"

namespace aril {

// Times are since the start of the load.
struct RequestRecord {
  Duration arrival{};  // when it was to be sent; in a closed loop, when it was
  Duration sent{};
  Duration end{};
  std::vector<Duration> chunks;  // when each chunk with tokens came
  int64_t prompt_tokens = -1;    // as the server counted them
  int64_t output_tokens = -1;
  std::string error;  // empty: it is good. Else why it failed, was cut short, or is not as asked
  // The server had no room: it answered 429 or 503, or ended the stream so before the first token.
  bool was_refused = false;

  bool is_good() const { return error.empty(); }
  Duration first_token() const { return chunks.front() - arrival; }  // of a good one
  Duration latency() const { return end - arrival; }
};

// Reads the events of one stream as they come. Not thread-safe.
class StreamReader {
 public:
  // `start`: that of the load.
  StreamReader(const Clock& clock, TimePoint start, RequestRecord* record)
      : clock_(clock), start_(start), record_(record) {}

  void OnData(std::string_view bytes);
  // The stream ended, or broke. Completes the record.
  void Finish(const StatusOr<gateway::HttpResponse>& response, const WorkloadRequest& asked);

 private:
  void OnEvent(const std::string& data);
  bool WasRefused(const StatusOr<gateway::HttpResponse>& response) const;
  std::string Judge(const StatusOr<gateway::HttpResponse>& response,
                    const WorkloadRequest& asked) const;

  const Clock& clock_;
  const TimePoint start_;
  RequestRecord* const record_;
  gateway::SseReader reader_;
  std::string raw_;  // the first bytes, to show in an error
  std::string stream_error_;
  bool done_ = false;
};

}  // namespace aril

#endif  // ARIL_APPS_BENCH_STREAM_H_

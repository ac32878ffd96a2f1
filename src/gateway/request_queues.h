// Where requests are parsed and tokenized, and long answers and lists put together.

#ifndef ARIL_GATEWAY_REQUEST_QUEUES_H_
#define ARIL_GATEWAY_REQUEST_QUEUES_H_

#include <cstddef>

#include "base/work_queue.h"
#include "gateway/api_error.h"

namespace aril::gateway {

// A thread for short requests and one for long ones: tokenizing megabytes takes a second, and
// nobody else's request should wait for that, nor an answer that is there. Tenants are lanes: they
// take turns, and none fills a queue. Thread-safe.
class RequestQueues {
 public:
  RequestQueues(size_t max_length, size_t max_length_of_tenant)
      : short_({.max_length = max_length, .max_waiting_per_lane = max_length_of_tenant}),
        long_({.max_length = max_length, .max_waiting_per_lane = max_length_of_tenant}),
        answers_({.max_length = max_length, .max_waiting_per_lane = max_length_of_tenant}) {}

  WorkQueue& ForBody(size_t num_bytes) { return num_bytes > kMaxShortBytes ? long_ : short_; }
  WorkQueue& ForAnswers() { return answers_; }

 private:
  static constexpr size_t kMaxShortBytes = 128 << 10;

  WorkQueue short_;
  WorkQueue long_;
  WorkQueue answers_;
};

// 503 for what comes to a full queue.
inline ApiError QueueIsFull() {
  return Overloaded(
      "The server has too much to do: too many requests wait to be parsed. Please try again.");
}

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REQUEST_QUEUES_H_

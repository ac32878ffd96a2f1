// Where requests are parsed and tokenized, and long answers and lists put together.

#ifndef ARIL_GATEWAY_REQUEST_QUEUES_H_
#define ARIL_GATEWAY_REQUEST_QUEUES_H_

#include <cstddef>

#include "base/strings.h"
#include "base/work_queue.h"
#include "gateway/api_error.h"

namespace aril::gateway {

// A thread for short requests and one for long ones: tokenizing megabytes takes a second, and
// nobody else's request should wait for that, nor an answer that is there. Thread-safe.
class RequestQueues {
 public:
  explicit RequestQueues(size_t max_length)
      : short_(max_length), long_(max_length), answers_(max_length) {}

  WorkQueue& ForBody(size_t num_bytes) { return num_bytes > kMaxShortBytes ? long_ : short_; }
  WorkQueue& ForAnswers() { return answers_; }

 private:
  static constexpr size_t kMaxShortBytes = 128 << 10;

  WorkQueue short_;
  WorkQueue long_;
  WorkQueue answers_;
};

// 503 for what comes to a full queue.
inline ApiError QueueIsFull(const WorkQueue& queue) {
  return Overloaded(StrCat("The server has too much to do: ", queue.max_length(),
                           " requests wait before this one, to be parsed. Please try again."));
}

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REQUEST_QUEUES_H_

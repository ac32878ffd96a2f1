// Hands the runner's events over to the server's thread.

#ifndef ARIL_GATEWAY_EVENT_INBOX_H_
#define ARIL_GATEWAY_EVENT_INBOX_H_

#include <functional>
#include <mutex>
#include <vector>

#include "gateway/metrics.h"
#include "wire/ports.h"

namespace aril::gateway {

// Runs a function on the server's thread, soon. Thread-safe.
using PostFunction = std::function<void(std::function<void()>)>;

// At most one post is on its way at any time: a step that ends before the last one's events were
// taken adds to them. What waits here is thus bounded by the tokens that the live sequences may
// still produce, however slow the server's thread is.
class EventInbox final : public wire::EventSink {
 public:
  using Deliver = std::function<void(std::vector<wire::TokenEvent>)>;

  // `deliver` runs on the server's thread; the inbox must live until the last post has run.
  EventInbox(PostFunction post, Metrics& metrics, Deliver deliver)
      : post_(std::move(post)), metrics_(metrics), deliver_(std::move(deliver)) {}

  void OnStep(const wire::StepStats& stats, std::vector<wire::TokenEvent> events) override;

 private:
  void Flush();

  const PostFunction post_;
  Metrics& metrics_;
  const Deliver deliver_;
  std::mutex mutex_;
  std::vector<wire::TokenEvent> events_;  // guarded by mutex_; not empty while a post is on its way
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_EVENT_INBOX_H_

#include "runner/runner.h"

#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace aril {

Runner::~Runner() { Stop(); }

void Runner::Start(wire::EventSink& sink) {
  const std::lock_guard lock(mutex_);
  CHECK(!thread_.joinable());
  if (stopping_) return;
  thread_ = std::thread([this, &sink] { Loop(sink); });
}

Status Runner::Submit(wire::SequenceRequest request) {
  ASSIGN_OR_RETURN(AcceptedSequence accepted, engine_.Accept(std::move(request)));
  const SequenceId sequence = accepted.request.sequence;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return Unavailable("the server is shutting down");
    if (live_.size() >= max_queued_) {
      return ResourceExhausted(
          StrCat("the queue is full (", max_queued_, " sequences); try again later"));
    }
    if (!live_.insert(sequence).second) {
      return InvalidArgument(StrCat("sequence ", sequence, " is already running"));
    }
    submitted_.push_back(std::move(accepted));
  }
  wake_.notify_one();
  return OkStatus();
}

void Runner::Cancel(SequenceId sequence) {
  {
    std::lock_guard lock(mutex_);
    if (!live_.contains(sequence)) return;
    cancelled_.insert(sequence);
  }
  wake_.notify_one();
}

void Runner::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    cancelled_.insert(live_.begin(), live_.end());
  }
  wake_.notify_one();
  std::call_once(joined_, [this] {
    if (thread_.joinable()) thread_.join();
  });
}

bool Runner::TakeMail() {
  std::vector<AcceptedSequence> submitted;
  std::set<SequenceId> cancelled;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] {
      return stopping_ || (engine_.HasWork() && !engine_.IsStalled()) || !submitted_.empty() ||
             !cancelled_.empty();
    });
    submitted.swap(submitted_);
    cancelled.swap(cancelled_);
    if (stopping_ && submitted.empty() && !engine_.HasSequences()) return false;
  }
  for (AcceptedSequence& accepted : submitted) engine_.Add(std::move(accepted));
  for (const SequenceId id : cancelled) engine_.Cancel(id);
  return true;
}

void Runner::Loop(wire::EventSink& sink) {
  engine_.SetListener([this] {
    // Whoever has looked and not found it waits by now.
    { const std::lock_guard waiting(mutex_); }
    wake_.notify_one();
  });
  while (TakeMail()) {
    std::vector<wire::TokenEvent> events = engine_.Step();
    {
      std::lock_guard lock(mutex_);
      for (const wire::TokenEvent& event : events) {
        if (!event.finish.has_value()) continue;
        live_.erase(event.sequence);
        cancelled_.erase(event.sequence);
      }
    }
    sink.OnStep(engine_.Stats(), std::move(events));
  }
  engine_.SetListener(nullptr);
}

}  // namespace aril

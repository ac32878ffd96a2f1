// The engine's thread and its mailbox.

#ifndef ARIL_RUNNER_RUNNER_H_
#define ARIL_RUNNER_RUNNER_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "wire/ports.h"

namespace aril {

// Sequences enter through a bounded mailbox; the engine runs steps while it has work, and each
// step's events go to the sink in one call. Thread-safe.
class Runner final : public wire::SequencePort {
 public:
  // `max_queued`: sequences accepted and not finished, running ones included. The engine and the
  // sink must outlive the runner.
  Runner(Engine& engine, size_t max_queued) : engine_(engine), max_queued_(max_queued) {}
  // Stops.
  ~Runner() override;

  // At most once. Has no effect after Stop.
  void Start(wire::EventSink& sink);

  Status Submit(wire::SequenceRequest request) override;
  void Cancel(SequenceId sequence) override;

  // Refuses new sequences, cancels all others, delivers their last events and ends the thread.
  // Idempotent; every caller returns after the last event.
  void Stop();

 private:
  void Loop(wire::EventSink& sink);
  // Waits for work, hands the mailbox to the engine. False when stopped.
  bool TakeMail();

  Engine& engine_;
  const size_t max_queued_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<AcceptedSequence> submitted_;
  std::unordered_set<SequenceId> live_;  // accepted and not finished
  std::set<SequenceId> cancelled_;       // live ones only: an id may be used again
  bool stopping_ = false;
  std::thread thread_;  // does not change any more once stopping_ is set
  std::once_flag joined_;
};

}  // namespace aril

#endif  // ARIL_RUNNER_RUNNER_H_

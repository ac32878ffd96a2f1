// The engine's thread and its mailbox.

#ifndef ARIL_RUNNER_RUNNER_H_
#define ARIL_RUNNER_RUNNER_H_

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "wire/admission.h"
#include "wire/ports.h"

namespace aril {

// Sequences enter through a bounded mailbox; the engine runs steps while it has work, and each
// step's events go to the sink in one call. An admission control, if there is one, holds sequences
// back in the mailbox until it is their turn. Thread-safe.
class Runner final : public wire::SequencePort {
 public:
  // `max_queued`: sequences accepted and not finished, running ones included. `admission` may be
  // null: first come, first served; else the engine must list its sequences. Engine, clock and sink
  // must outlive the runner.
  Runner(Engine& engine, size_t max_queued, const Clock& clock,
         std::unique_ptr<wire::AdmissionControl> admission = nullptr)
      : engine_(engine), max_queued_(max_queued), clock_(clock), admission_(std::move(admission)) {}
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
  void Obey(const wire::AdmissionControl::Decisions& decisions);
  // Of one that waited.
  void EndHeld(SequenceId sequence, wire::FinishReason reason, const Status& error);
  void AddHeld(wire::StepStats& stats) const;

  Engine& engine_;
  const size_t max_queued_;
  const Clock& clock_;

  std::mutex mutex_;
  const std::unique_ptr<wire::AdmissionControl> admission_;
  std::unordered_map<SequenceId, AcceptedSequence> held_;  // by the admission control
  std::vector<wire::TokenEvent> ended_;                    // of them, not yet delivered
  // Of them, too. What they have been promised is given back without the mutex: whoever waits for
  // that is told, by who has other locks.
  std::vector<AcceptedSequence> dropped_;
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

#include "runner/runner.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace aril {
namespace {

// Of the pool, that its adapters take.
int64_t AdapterPages(const AcceptedSequence& accepted) {
  int64_t pages = 0;
  for (const Sequence::Adapter& adapter : accepted.adapters) pages += adapter.num_pages;
  return pages;
}

}  // namespace

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
  std::vector<AcceptedSequence> dropped;
  Status result;
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
    if (admission_ == nullptr) {
      submitted_.push_back(std::move(accepted));
    } else {
      const int64_t pages = AdapterPages(accepted);
      auto decisions = admission_->OnSubmitted(accepted.request, pages, clock_.Now());
      const auto own = std::find_if(decisions.refuse.begin(), decisions.refuse.end(),
                                    [&](const auto& refused) { return refused.first == sequence; });
      if (own != decisions.refuse.end()) {
        live_.erase(sequence);
        result = std::move(own->second);
        decisions.refuse.erase(own);
      } else {
        held_.emplace(sequence, std::move(accepted));
      }
      Obey(decisions);
      dropped.swap(dropped_);
    }
  }
  wake_.notify_one();
  return result;
}

void Runner::Obey(const wire::AdmissionControl::Decisions& decisions) {
  for (const SequenceId id : decisions.begin) {
    auto held = held_.extract(id);
    CHECK(!held.empty());
    submitted_.push_back(std::move(held.mapped()));
  }
  for (const auto& [id, why] : decisions.refuse) EndHeld(id, wire::FinishReason::kError, why);
}

void Runner::EndHeld(SequenceId sequence, wire::FinishReason reason, const Status& error) {
  const auto held = held_.find(sequence);
  CHECK(held != held_.end());
  const wire::SequenceRequest& request = held->second.request;
  wire::TokenEvent event;
  event.sequence = sequence;
  event.attempt = request.attempt;
  event.index = static_cast<int32_t>(request.output.size());
  event.finish = reason;
  event.error = error;
  ended_.push_back(std::move(event));
  dropped_.push_back(std::move(held->second));
  held_.erase(held);
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
  std::vector<AcceptedSequence> submitted, dropped;
  std::set<SequenceId> cancelled;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] {
      return stopping_ || (engine_.HasWork() && !engine_.IsStalled()) || !submitted_.empty() ||
             !cancelled_.empty() || !ended_.empty();
    });
    cancelled.swap(cancelled_);
    if (admission_ != nullptr) {
      for (const SequenceId id : cancelled) {
        if (!held_.contains(id)) continue;
        EndHeld(id, wire::FinishReason::kCancelled, OkStatus());
        Obey(admission_->OnClosed(id, clock_.Now()));
      }
    }
    submitted.swap(submitted_);
    dropped.swap(dropped_);
    if (stopping_ && submitted.empty() && ended_.empty() && !engine_.HasSequences()) return false;
  }
  for (AcceptedSequence& accepted : submitted) engine_.Add(std::move(accepted));
  for (const SequenceId id : cancelled) engine_.Cancel(id);
  return true;
}

// They wait as well, and nobody who looks at the statistics need know where.
void Runner::AddHeld(wire::StepStats& stats) const {
  stats.num_waiting += static_cast<int32_t>(held_.size());
  std::map<AdapterId, wire::AdapterLoad> loads;
  for (const wire::AdapterLoad& load : stats.adapters) loads[load.adapter] = load;
  const auto count = [&loads](AdapterId adapter) {
    wire::AdapterLoad& load = loads[adapter];
    load.adapter = adapter;
    ++load.num_waiting;
  };
  for (const auto& [id, held] : held_) {
    if (held.request.adapters.empty()) count(kBaseModel);
    for (const AdapterUse& use : held.request.adapters) count(use.id);
  }
  stats.adapters.clear();
  for (const auto& [id, load] : loads) stats.adapters.push_back(load);
}

void Runner::Loop(wire::EventSink& sink) {
  engine_.SetListener([this] {
    // Whoever has looked and not found it waits by now.
    { const std::lock_guard waiting(mutex_); }
    wake_.notify_one();
  });
  // Whoever looks at the statistics finds them from the start.
  sink.OnStep(engine_.Stats(), {});
  while (TakeMail()) {
    std::vector<wire::TokenEvent> events = engine_.Step();
    wire::StepStats stats = engine_.Stats();
    std::vector<AcceptedSequence> dropped;
    {
      std::lock_guard lock(mutex_);
      if (admission_ != nullptr) {
        std::vector<SequenceId> finished;
        for (const wire::TokenEvent& event : events) {
          if (event.finish) finished.push_back(event.sequence);
        }
        Obey(admission_->OnStep(stats, finished, clock_.Now()));
        AddHeld(stats);
        dropped.swap(dropped_);
      }
      std::move(ended_.begin(), ended_.end(), std::back_inserter(events));
      ended_.clear();
      for (const wire::TokenEvent& event : events) {
        if (!event.finish.has_value()) continue;
        live_.erase(event.sequence);
        cancelled_.erase(event.sequence);
      }
    }
    sink.OnStep(stats, std::move(events));
  }
  engine_.SetListener(nullptr);
}

}  // namespace aril
